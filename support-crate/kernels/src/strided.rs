//! Parts of a row-major matrix that several threads write at once.

use std::marker::PhantomData;
use std::ops::Range;

/// A block of a larger matrix: `rows` rows of `width` numbers, `stride` apart. Nobody else has these numbers.
#[derive(Debug)]
pub struct Block<'a, T> {
    start: *mut T,
    rows: usize,
    width: usize,
    stride: usize,
    _borrow: PhantomData<&'a mut [T]>,
}

// SAFETY: a block stands for `&mut` of its numbers, which may be sent where `T` may.
unsafe impl<T: Send> Send for Block<'_, T> {}

impl<'a, T> Block<'a, T> {
    /// All of a matrix with rows of `width` numbers.
    #[inline(always)]
    pub fn new(matrix: &'a mut [T], width: usize) -> Self {
        let rows = matrix.len() / width;
        assert_eq!(matrix.len(), rows * width, "the numbers are not whole rows of {width}");
        Self { start: matrix.as_mut_ptr(), rows, width, stride: width, _borrow: PhantomData }
    }

    /// The same block for a shorter time.
    #[inline(always)]
    pub fn reborrow(&mut self) -> Block<'_, T> {
        Block { _borrow: PhantomData, ..*self }
    }

    /// Some columns of the block.
    #[inline(always)]
    pub fn into_columns(self, columns: Range<usize>) -> Self {
        assert!(columns.start <= columns.end && columns.end <= self.width, "the columns lie beyond the block");
        // Wrapping, because there may be no rows to step along.
        Self { start: self.start.wrapping_add(columns.start), width: columns.len(), ..self }
    }

    #[inline(always)]
    pub fn width(&self) -> usize {
        self.width
    }

    #[inline(always)]
    pub fn rows(&self) -> usize {
        self.rows
    }

    #[inline(always)]
    pub fn row(&mut self, row: usize) -> &mut [T] {
        assert!(row < self.rows, "row {row} is out of range for {} rows", self.rows);
        // SAFETY: the row is one of the block's, whose numbers are borrowed exclusively through it; if it has any, they lie
        // within the matrix.
        unsafe { std::slice::from_raw_parts_mut(self.start.wrapping_add(row * self.stride), self.width) }
    }
}

/// A matrix that is taken apart into blocks, one for each thread.
#[derive(Debug)]
pub struct Divided<'a, T> {
    start: *mut T,
    rows: usize,
    columns: usize,
    _borrow: PhantomData<&'a mut [T]>,
}

// SAFETY: the only way to its numbers is `block`, whose callers vouch that no two blocks overlap.
unsafe impl<T: Send> Sync for Divided<'_, T> {}

impl<'a, T> Divided<'a, T> {
    pub fn new(matrix: &'a mut [T], columns: usize) -> Self {
        let Block { start, rows, .. } = Block::new(matrix, columns);
        Self { start, rows, columns, _borrow: PhantomData }
    }

    /// # Safety
    /// While this block lives, no other block contains any of its numbers.
    #[inline(always)]
    pub unsafe fn block(&self, rows: Range<usize>, columns: Range<usize>) -> Block<'_, T> {
        assert!(
            rows.start <= rows.end
                && rows.end <= self.rows
                && columns.start <= columns.end
                && columns.end <= self.columns,
            "the block lies beyond its matrix"
        );
        // Wrapping, because an empty range may begin at the end of the matrix.
        let start = self.start.wrapping_add(rows.start * self.columns).wrapping_add(columns.start);
        Block { start, rows: rows.len(), width: columns.len(), stride: self.columns, _borrow: PhantomData }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_where_they_should_be() {
        let mut matrix = vec![0; 12];
        let divided = Divided::new(&mut matrix, 4);
        // SAFETY: the two blocks have no column in common.
        let (mut left, mut right) = unsafe { (divided.block(0..3, 0..1), divided.block(1..3, 2..4)) };
        (0..left.rows()).for_each(|row| left.row(row).fill(1));
        (0..right.rows()).for_each(|row| right.row(row).fill(2));
        assert_eq!(matrix, [1, 0, 0, 0, 1, 0, 2, 2, 1, 0, 2, 2]);
    }

    #[test]
    #[should_panic(expected = "beyond its matrix")]
    fn a_block_beyond_its_matrix_is_refused() {
        let mut matrix = vec![0; 12];
        let divided = Divided::new(&mut matrix, 4);
        // SAFETY: there is no other block.
        let _ = unsafe { divided.block(2..4, 0..1) };
    }
}

//! Memory that may be more than there is.

use std::alloc::{Layout, alloc_zeroed};

use half::f16;

/// A type of numbers of which all bits 0 is 0, and any bits are one.
///
/// # Safety
/// That is so.
pub unsafe trait Zero: Copy {}

macro_rules! zero {
    ($($type:ty),*) => {
        // SAFETY: an integer, or an IEEE 754 number.
        $(unsafe impl Zero for $type {})*
    };
}
zero!(u8, f32, f16);

/// Zeros that take no memory until they are touched, or `None` if there is not enough; `vec!` would end the process.
pub fn zeros<T: Zero>(len: usize) -> Option<Vec<T>> {
    let layout = Layout::array::<T>(len).ok()?;
    if layout.size() == 0 {
        return Some(Vec::new());
    }
    // SAFETY: the size of the layout is not zero.
    let start = unsafe { alloc_zeroed(layout) }.cast::<T>();
    // SAFETY: the allocator of `Vec` has just allocated these bytes, for this many numbers; any bytes are a valid
    // number, and zeros are 0.
    (!start.is_null()).then(|| unsafe { Vec::from_raw_parts(start, len, len) })
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use super::*;

    #[test]
    fn zeros_are_zero_and_too_many_are_none() {
        assert_eq!(zeros::<f32>(0), Some(Vec::new()));
        assert_eq!(zeros(2), Some(vec![f16::ZERO; 2]));
        assert_eq!(zeros(3), Some(vec![0.0; 3]));
        // The first is not a valid size, the second is one that no machine has.
        assert_eq!(zeros::<f32>(usize::MAX), None);
        // Without `black_box`, an optimizer may remove the allocation, and what it says with it.
        assert_eq!(black_box(zeros::<f32>(isize::MAX as usize / size_of::<f32>())), None);
    }
}

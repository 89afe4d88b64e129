//! What is done to a tensor's numbers each time they are read.

use std::sync::Arc;

use quantlab_kernels::thread_scope;

use super::Rotation;

/// A tensor that differs from the one in the files.
#[derive(Debug, Clone, Default)]
pub(in crate::model) struct Changed {
    /// The tensor that it is made from, if not the one of its own name.
    pub from: Option<String>,
    pub changes: Vec<Change>,
}

/// A change of a matrix (out, in), or of a vector (out), which has one column.
#[derive(Debug, Clone)]
pub(in crate::model) enum Change {
    /// Other numbers, for a vector.
    Set(Arc<[f32]>),
    /// Each column is multiplied by its factor.
    ScaleColumns(Arc<[f32]>),
    /// Each row from `first` on is multiplied by its factor, as far as there are factors.
    ScaleRows { first: usize, factors: Arc<[f32]> },
    /// `W Q`
    RotateRows(Arc<Rotation>),
    /// `Q^T W`
    RotateColumns(Arc<Rotation>),
}

impl Changed {
    /// Whether each row depends on all rows of the original.
    pub fn mixes_rows(&self) -> bool {
        self.changes.iter().any(|change| matches!(change, Change::Set(_) | Change::RotateColumns(_)))
    }

    /// Changes rows of `width` numbers, from the row `first` on; all of them if it [`mixes_rows`](Self::mixes_rows).
    pub fn apply(&self, numbers: &mut [f32], first: usize, width: usize) {
        self.changes.iter().for_each(|change| change.apply(numbers, first, width));
    }
}

impl Change {
    fn apply(&self, numbers: &mut [f32], first: usize, width: usize) {
        match self {
            Self::Set(other) => numbers.copy_from_slice(other),
            Self::RotateRows(rotation) => rotation.rows(numbers),
            Self::RotateColumns(rotation) => rotation.columns(numbers, width),
            Self::ScaleColumns(factors) => thread_scope().split_mut(numbers, width, width, &|_, rows| {
                for row in rows.chunks_exact_mut(width) {
                    row.iter_mut().zip(&**factors).for_each(|(number, factor)| *number *= factor);
                }
            }),
            Self::ScaleRows { first: first_scaled, factors } => {
                let skipped = first_scaled.saturating_sub(first);
                let factors = factors.iter().skip(first.saturating_sub(*first_scaled));
                for (row, factor) in numbers.chunks_exact_mut(width).skip(skipped).zip(factors) {
                    row.iter_mut().for_each(|number| *number *= factor);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Weights;
    use crate::model::weights::UnreadTensor;
    use crate::source::WeightSource;

    #[test]
    fn a_tensor_is_read_in_parts_as_it_is_at_once() {
        let rotation = || Arc::new(Rotation::new(24, 1, false).unwrap());
        for change in [Change::RotateRows(rotation()), Change::RotateColumns(rotation())] {
            let mut weights = Weights::open(&WeightSource::Random { seed: 1 }, true).unwrap();
            let shape = [24, 24];
            let original = weights.matrix("x", (24, 24), false).unwrap();
            weights.change("x", Change::ScaleColumns((0..24).map(|i| i as f32 - 7.5).collect()));
            weights.copy("x", "y");
            weights.change("x", change.clone());
            let mut expected = original;
            expected.iter_mut().enumerate().for_each(|(i, number)| *number *= (i % 24) as f32 - 7.5);
            // A copy stays as it was when it was made.
            assert_eq!(weights.matrix("y", (24, 24), false).unwrap(), expected);
            change.apply(&mut expected, 0, 24);
            assert_eq!(weights.matrix("x", (24, 24), false).unwrap(), expected);
            let tensor = UnreadTensor { weights: &weights, name: "x", shape: &shape, transposed: false };
            let mut some = Vec::<f32>::new();
            for rows in [0..24, 0..7, 7..8, 20..24] {
                tensor.read_rows(rows.clone(), &mut some).unwrap();
                assert_eq!(some, expected[rows.start * 24..rows.end * 24]);
            }
            let mut narrow = vec![half::bf16::ZERO; expected.len()];
            tensor.read_to(&mut narrow).unwrap();
            assert!(narrow.iter().zip(&expected).all(|(found, wide)| *found == half::bf16::from_f32(*wide)));
        }
    }

    #[test]
    fn numbers_that_are_not_finite_afterwards_are_an_error() {
        let mut weights = Weights::open(&WeightSource::Random { seed: 1 }, false).unwrap();
        weights.change("x", Change::ScaleRows { first: 1, factors: Arc::new([f32::INFINITY]) });
        let error = weights.matrix("x", (2, 8), false).unwrap_err().to_string();
        assert!(error.contains("`x` holds a NaN or an infinity after folding"), "{error}");
    }

    #[test]
    fn some_rows_are_changed_as_all_of_them() {
        let changes = vec![
            Change::ScaleColumns(Arc::new([1.0, 2.0, -1.0])),
            Change::ScaleRows { first: 2, factors: Arc::new([10.0, 100.0]) },
        ];
        let changed = Changed { from: None, changes };
        let numbers: Vec<f32> = (1..=15).map(|i| i as f32).collect();
        let mut all = numbers.clone();
        changed.apply(&mut all, 0, 3);
        assert_eq!(all[..6], [1.0, 4.0, -3.0, 4.0, 10.0, -6.0]);
        assert_eq!(all[6..], [70.0, 160.0, -90.0, 1000.0, 2200.0, -1200.0, 13.0, 28.0, -15.0]);
        for (first, end) in [(0, 2), (1, 4), (3, 5), (4, 5)] {
            let mut some = numbers[first * 3..end * 3].to_vec();
            changed.apply(&mut some, first, 3);
            assert_eq!(some, all[first * 3..end * 3]);
        }
    }
}

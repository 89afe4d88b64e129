//! Inputs of [`Packed4Bit`](super::Packed4Bit), in the order in which decoding yields weights.

use super::decode::Decoded;
use super::{Product, split_rows};
use crate::scratch::{Reused, Scratch};
use crate::simd::{Dispatch, Kernel, Simd};

/// All inputs as [`Order`] leaves them, each row in the order of `columns` first.
pub(super) fn ordered<T, V>(vectors: V, product: &Product<'_>, columns: Option<&[u32]>) -> Scratch<T>
where
    T: Reused + Send,
    V: Copy + Sync + for<'a> Dispatch<Order<'a, T>>,
{
    let Product { scope, x, k, .. } = *product;
    let permuted = columns.map(|columns| {
        let mut permuted = Scratch::<f32>::uninit(x.len());
        split_rows(scope, &mut permuted, (k, k), &|row, out| {
            let x = &x[row * k..(row + 1) * k];
            out.iter_mut().zip(columns).for_each(|(out, &column)| *out = x[column as usize]);
        });
        permuted
    });
    let x = permuted.as_deref().unwrap_or(x);
    let mut ordered = Scratch::<T>::uninit(x.len());
    scope.split_mut(&mut ordered, k, 4 * k, &|first, out| {
        vectors.dispatch(Order { x: &x[first * k..first * k + out.len()], k, out });
    });
    ordered
}

/// Converts rows of inputs to the format that they are multiplied in. Where rows consist of whole groups, also brings
/// them into the order in which decoding yields numbers ([`Decoded::number_at`]).
pub(super) struct Order<'a, T> {
    x: &'a [f32],
    k: usize,
    out: &'a mut [T],
}

impl<S: Simd, T: Decoded<S>> Kernel<S> for Order<'_, T> {
    #[inline(always)]
    fn run(self, _: S) {
        let Self { x, k, out } = self;
        if !k.is_multiple_of(T::GROUP) {
            return x.iter().zip(out).for_each(|(x, out)| *out = T::nearest(*x));
        }
        for (x, out) in x.chunks_exact(T::GROUP).zip(out.chunks_exact_mut(T::GROUP)) {
            out.iter_mut().enumerate().for_each(|(place, out)| *out = T::nearest(x[T::number_at(place)]));
        }
    }
}

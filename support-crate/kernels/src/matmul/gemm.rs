//! The tiling of all products, and their micro-kernel.

use std::ops::{Add, Range};

use half::{bf16, f16};

use crate::simd::Simd;
use crate::sizes::hold_rows;
use crate::strided::Block;

/// Rows of inputs that stay in the second-level cache while weights go by.
pub const INPUT_BLOCK: usize = 128;

/// Bytes of inputs that stay in the second-level cache as a whole: weights are then read in the order of memory, which
/// the processor predicts best.
pub const INPUTS_IN_CACHE: usize = 1 << 19;

/// Distance in bytes from the end of a tile to what is prefetched while the tile is read: it comes from main memory.
const AHEAD: usize = 2048;

/// The factors of a product.
#[derive(Debug, Clone, Copy)]
pub struct Operands<'a, T, W = T> {
    /// Rows of `k` numbers, one after the other.
    pub weights: &'a [W],
    /// `m` rows of `k` numbers, `x_stride` apart.
    pub x: &'a [T],
    pub x_stride: usize,
    pub m: usize,
    pub k: usize,
}

/// A number format that inputs and weights of a product have.
pub trait Factor<S: Simd>: Copy {
    /// Numbers that are multiplied at once.
    const STEP: usize;
    /// Rows of inputs, and of weights, that the micro-kernel takes at once.
    const TILE: (usize, usize) = S::TILE;
    /// Numbers along K that are multiplied before vectors of sums become numbers: a panel of weights then stays in
    /// the first-level cache.
    const K_BLOCK: usize = 1024;
    type Vector: Copy;
    type Sums: Copy;
    /// What a vector of sums adds up to.
    type Sum: Copy + Add<Output = Self::Sum>;
    /// A vector of zeros.
    #[inline(always)]
    fn none(simd: S) -> Self::Vector {
        // SAFETY: no number is read.
        unsafe { <Self as Factor<S>>::load_part(simd, std::ptr::dangling(), 0) }
    }
    fn no_sums(simd: S) -> Self::Sums;
    fn dot(simd: S, a: Self::Vector, b: Self::Vector, sums: Self::Sums) -> Self::Sums;
    fn reduce(simd: S, sums: [Self::Sums; 4]) -> [Self::Sum; 4];
    /// # Safety
    /// [`STEP`](Self::STEP) numbers can be read.
    unsafe fn load(simd: S, from: *const Self) -> Self::Vector;
    /// The first `count` numbers, and zeros; `count` is less than [`STEP`](Self::STEP).
    ///
    /// # Safety
    /// `count` numbers can be read.
    unsafe fn load_part(simd: S, from: *const Self, count: usize) -> Self::Vector;
}

/// A number format that weights are stored in and that is loaded as `T`.
pub trait Stored<S: Simd, T: Factor<S>>: Copy {
    /// # Safety
    /// As [`Factor::load`].
    unsafe fn load(simd: S, from: *const Self) -> T::Vector;
    /// # Safety
    /// As [`Factor::load_part`].
    unsafe fn load_part(simd: S, from: *const Self, count: usize) -> T::Vector;
}

impl<S: Simd, T: Factor<S>> Stored<S, T> for T {
    #[inline(always)]
    unsafe fn load(simd: S, from: *const T) -> T::Vector {
        // SAFETY: the caller's promise is the same.
        unsafe { <T as Factor<S>>::load(simd, from) }
    }
    #[inline(always)]
    unsafe fn load_part(simd: S, from: *const T, count: usize) -> T::Vector {
        // SAFETY: the caller's promise is the same.
        unsafe { <T as Factor<S>>::load_part(simd, from, count) }
    }
}

impl<S: Simd> Stored<S, f32> for f16 {
    #[inline(always)]
    unsafe fn load(simd: S, from: *const f16) -> S::F32 {
        // SAFETY: the caller can read `STEP` numbers, a vector of float32.
        unsafe { simd.load_f16(from) }
    }
    #[inline(always)]
    unsafe fn load_part(simd: S, from: *const f16, count: usize) -> S::F32 {
        // SAFETY: the caller's promise is the same.
        unsafe { simd.load_f16_part(from, count) }
    }
}

/// Adds the products of all inputs with the rows `rows` of weights to `out`, (m, rows).
#[inline(always)]
pub fn gemm<S: Simd, T: Factor<S>, W: Stored<S, T>>(
    simd: S,
    operands: Operands<'_, T, W>,
    rows: Range<usize>,
    out: &mut Block<'_, T::Sum>,
) {
    let Operands { weights, x, x_stride, m, k } = operands;
    assert!(hold_rows(weights.len(), rows.end, k, k) && hold_rows(x.len(), m, x_stride, k), "factors of a product");
    // For few inputs, more rows of weights: enough sums that additions need not wait for each other. The constants
    // decide while compiling: no tile is built that the instruction set has no use for.
    if const { T::TILE.0 == 4 } {
        match m {
            0 => (),
            1 => blocked::<S, T, W, 1, 8>(simd, operands, rows, out),
            2 => blocked::<S, T, W, 2, 8>(simd, operands, rows, out),
            3 => blocked::<S, T, W, 3, 8>(simd, operands, rows, out),
            _ => blocked::<S, T, W, 4, 6>(simd, operands, rows, out),
        }
    } else if m == 1 {
        blocked::<S, T, W, 1, 8>(simd, operands, rows, out);
    } else if const { T::TILE.0 == 3 } {
        if m == 2 {
            return blocked::<S, T, W, 2, 4>(simd, operands, rows, out);
        }
        blocked::<S, T, W, 3, 4>(simd, operands, rows, out);
    } else if const { T::TILE.1 == 4 } {
        blocked::<S, T, W, 2, 4>(simd, operands, rows, out);
    } else {
        blocked::<S, T, W, 2, 2>(simd, operands, rows, out);
    }
}

/// Goes through the product in blocks of inputs and of K, and through these in panels of `N` rows of weights; where all
/// inputs stay in the cache, through one panel after the other from its beginning to its end.
#[inline(always)]
fn blocked<S: Simd, T: Factor<S>, W: Stored<S, T>, const M: usize, const N: usize>(
    simd: S,
    operands: Operands<'_, T, W>,
    rows: Range<usize>,
    out: &mut Block<'_, T::Sum>,
) {
    let Operands { weights, x, x_stride, m, k } = operands;
    let in_order = m * k * size_of::<T>() <= INPUTS_IN_CACHE;
    let together = if in_order { N } else { rows.len().max(1) };
    for some in blocks(rows.clone(), together) {
        for inputs in blocks(0..m, INPUT_BLOCK) {
            for along in blocks(0..k, T::K_BLOCK) {
                let next = |n: usize, count: usize| {
                    weights.as_ptr().wrapping_add((n + count) * k + along.start * count).wrapping_byte_add(AHEAD)
                };
                let panel = |n: usize, count: usize| Panel {
                    weights: &weights[n * k + along.start..],
                    weights_stride: k,
                    x: &x[along.start..],
                    x_stride,
                    len: along.len(),
                    next: in_order.then(|| next(n, count)),
                };
                let mut n = some.start;
                while n + N <= some.end {
                    panel(n, N).multiply::<S, M, N>(simd, inputs.clone(), n - rows.start, out);
                    n += N;
                }
                while n < some.end {
                    panel(n, 1).multiply::<S, M, 1>(simd, inputs.clone(), n - rows.start, out);
                    n += 1;
                }
            }
        }
    }
}

/// A range in parts of at most `size`.
#[inline(always)]
pub fn blocks(range: Range<usize>, size: usize) -> impl Iterator<Item = Range<usize>> {
    range.clone().step_by(size).map(move |start| start..range.end.min(start + size))
}

/// Some rows of weights, and the inputs that they are multiplied with.
#[derive(Clone, Copy)]
pub struct Panel<'a, T, W = T> {
    pub weights: &'a [W],
    pub weights_stride: usize,
    /// From the first row of inputs on.
    pub x: &'a [T],
    pub x_stride: usize,
    /// Numbers of each row that are multiplied.
    pub len: usize,
    /// The weights that will be read soon: as many as these, one after the other in memory.
    pub next: Option<*const W>,
}

impl<T: Copy, W: Copy> Panel<'_, T, W> {
    /// Adds the products of `N` rows of weights with all of `inputs`, `M` at a time, to the columns from `column` on. The
    /// first `M` inputs prefetch.
    #[inline(always)]
    pub fn multiply<S: Simd, const M: usize, const N: usize>(
        &self,
        simd: S,
        inputs: Range<usize>,
        column: usize,
        out: &mut Block<'_, T::Sum>,
    ) where
        T: Factor<S>,
        W: Stored<S, T>,
    {
        let mut m = inputs.start;
        if self.next.is_some() && m + M <= inputs.end {
            self.micro_kernel::<S, M, N, true>(simd, m, column, out);
            m += M;
        }
        while m + M <= inputs.end {
            self.micro_kernel::<S, M, N, false>(simd, m, column, out);
            m += M;
        }
        let rest = inputs.end - m;
        if const { M > 3 } && rest == 3 {
            self.micro_kernel::<S, 3, N, false>(simd, m, column, out);
        } else if const { M > 2 } && rest == 2 {
            self.micro_kernel::<S, 2, N, false>(simd, m, column, out);
        } else if const { M > 1 } && rest == 1 {
            self.micro_kernel::<S, 1, N, false>(simd, m, column, out);
        }
    }

    /// Multiplies `M` rows of inputs from `m` on by `N` rows of weights, and prefetches what comes `next` if `PREFETCH` says
    /// so. That is a constant because the compiler leaves a branch in the loop otherwise, which costs int8 with AVX2 a fifth
    /// of its speed.
    #[expect(clippy::needless_range_loop, reason = "rows and columns of a tile read best by their numbers")]
    #[inline(always)]
    fn micro_kernel<S: Simd, const M: usize, const N: usize, const PREFETCH: bool>(
        &self,
        simd: S,
        m: usize,
        column: usize,
        out: &mut Block<'_, T::Sum>,
    ) where
        T: Factor<S>,
        W: Stored<S, T>,
    {
        let Self { weights_stride, x_stride, len, next, .. } = *self;
        // Whoever makes a panel has checked that all rows of inputs and weights exist: neither product wraps.
        assert!(self.weights.len() >= (N - 1) * weights_stride + len, "rows of weights");
        assert!(self.x.len() >= (m + M - 1) * x_stride + len, "rows of inputs");
        let (weights, x) = (self.weights.as_ptr(), self.x[m * x_stride..].as_ptr());
        let whole = len - len % T::STEP;
        let mut sums = [[T::no_sums(simd); N]; M];
        let mut inputs = [T::none(simd); M];
        // SAFETY: `M` rows of inputs and `N` of weights have `len` numbers each, as was just checked. What is
        // prefetched need not exist.
        unsafe {
            let mut at = 0;
            while at < whole {
                for i in 0..M {
                    inputs[i] = <T as Factor<S>>::load(simd, x.add(i * x_stride + at));
                }
                for j in 0..N {
                    let weight = W::load(simd, weights.add(j * weights_stride + at));
                    if const { PREFETCH }
                        && let Some(next) = next
                    {
                        simd.prefetch(next.wrapping_add(at * N + j * T::STEP));
                    }
                    for i in 0..M {
                        sums[i][j] = T::dot(simd, inputs[i], weight, sums[i][j]);
                    }
                }
                at += T::STEP;
            }
            if whole < len {
                for i in 0..M {
                    inputs[i] = <T as Factor<S>>::load_part(simd, x.add(i * x_stride + whole), len - whole);
                }
                for j in 0..N {
                    let weight = W::load_part(simd, weights.add(j * weights_stride + whole), len - whole);
                    for i in 0..M {
                        sums[i][j] = T::dot(simd, inputs[i], weight, sums[i][j]);
                    }
                }
            }
        }
        add_sums::<S, T, M, N>(simd, &sums, m, column, out);
    }
}

/// Adds the total of each vector of sums to its output: rows from `m` on, columns from `column` on.
#[inline(always)]
pub fn add_sums<S: Simd, T: Factor<S>, const M: usize, const N: usize>(
    simd: S,
    sums: &[[T::Sums; N]; M],
    m: usize,
    column: usize,
    out: &mut Block<'_, T::Sum>,
) {
    for (i, sums) in sums.iter().enumerate() {
        let out = &mut out.row(m + i)[column..column + N];
        for (four, out) in (0..N).step_by(4).zip(out.chunks_mut(4)) {
            let at = |j: usize| if j < N { sums[j] } else { T::no_sums(simd) };
            let four = T::reduce(simd, [at(four), at(four + 1), at(four + 2), at(four + 3)]);
            out.iter_mut().zip(four).for_each(|(out, sum)| *out = *out + sum);
        }
    }
}

/// Implements [`Factor`] by functions of [`Simd`]: those of the numbers, and those of their sums.
macro_rules! factor {
    (
        $(#[$doc:meta])* $number:ty: $step:ident in $vector:ident, $load:ident, $load_part:ident;
        $sums:ident of $sum:ty, $zero:ident, $dot:ident, $reduce:ident $(, $wrap:path)?;
        $($constant:ident: $type:ty = $value:expr;)*
    ) => {
        $(#[$doc])*
        impl<S: Simd> Factor<S> for $number {
            const STEP: usize = S::$step;
            $(const $constant: $type = $value;)*
            type Vector = S::$vector;
            type Sums = S::$sums;
            type Sum = $sum;
            #[inline(always)]
            fn no_sums(simd: S) -> S::$sums {
                simd.$zero()
            }
            #[inline(always)]
            fn dot(simd: S, a: S::$vector, b: S::$vector, sums: S::$sums) -> S::$sums {
                simd.$dot(a, b, sums)
            }
            #[inline(always)]
            fn reduce(simd: S, sums: [S::$sums; 4]) -> [$sum; 4] {
                simd.$reduce(sums)$(.map($wrap))?
            }
            #[inline(always)]
            unsafe fn load(simd: S, from: *const Self) -> S::$vector {
                // SAFETY: the caller can read `STEP` numbers, which have the same form in memory as in `Simd`.
                unsafe { simd.$load(from.cast()) }
            }
            #[inline(always)]
            unsafe fn load_part(simd: S, from: *const Self, count: usize) -> S::$vector {
                // SAFETY: the caller can read `count` numbers, which have the same form in memory as in `Simd`.
                unsafe { simd.$load_part(from.cast(), count) }
            }
        }
    };
}
pub(super) use factor;

factor! {
    f32: LANES in F32, load, load_part;
    F32 of f32, zero, mul_add, sums;
}
factor! {
    bf16: BF16_LANES in Bf16, load_bf16, load_bf16_part;
    F32 of f32, zero, bf16_dot, sums;
}
factor! {
    /// The first factor is an input, unsigned where the instructions require it.
    i8: BYTES in Bytes, load_bytes, load_bytes_part;
    I32 of Wrapping, zero_i32, byte_dot, sums_i32, std::num::Wrapping;
    TILE: (usize, usize) = S::BYTE_TILE;
    K_BLOCK: usize = 4096;
}

/// A sum of products of bytes, modulo 2^32 until the effect of a shift or an inversion is undone.
type Wrapping = std::num::Wrapping<i32>;

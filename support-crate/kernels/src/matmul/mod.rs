//! Products of inputs with a matrix of weights, from one row of inputs to thousands.
//!
//! Both are read along K, which is the order that they are stored in: nothing is packed or transposed,
//! a decode step streams the weights once, and a prompt takes them in tiles of several rows of inputs
//! by several rows of weights.

mod bfloat16;
mod decode;
#[cfg(target_arch = "aarch64")]
mod decode_neon;
#[cfg(target_arch = "x86_64")]
mod decode_x86;
mod decoded;
mod gemm;
mod int8;
mod packed4bit;
#[cfg(target_arch = "aarch64")]
pub(crate) mod smmla;
#[cfg(test)]
mod tests;

use std::ops::Range;

use half::bf16;

pub use decode::Widened;
#[cfg(target_arch = "x86_64")]
pub use decode_x86::InWords;
pub(crate) use gemm::{Operands, blocks, gemm};
pub use int8::{ActivationQuant, INTEGERS, LARGEST, PER_PRODUCT, PER_STEP, PackedInt8, int8_factor, round_to_int8};
pub use packed4bit::{Compute, Packed4Bit};

#[cfg(target_arch = "x86_64")]
use crate::amx;
use crate::elementwise::{self, Activation};
use crate::isa::Isa;
use crate::scratch::Scratch;
use crate::simd::{Kernel, Simd};
use crate::sizes;
use crate::strided::Block;
use crate::threads::ThreadScope;
use gemm::Factor;

/// A matrix of weights, (n, k) row by row.
#[derive(Debug, Clone, Copy)]
pub struct Matrix<'a> {
    /// Its numbers.
    pub data: MatrixData<'a>,
    /// Outputs.
    pub n: usize,
    /// Inputs.
    pub k: usize,
}

/// What a matrix is stored as.
#[derive(Debug, Clone, Copy)]
pub enum MatrixData<'a> {
    /// 4 bytes a number.
    Float32(&'a [f32]),
    /// 2 bytes a number. Inputs of products are rounded to bfloat16 too; sums are float32.
    BFloat16(&'a [bf16]),
    /// Half a byte a number, and a scale for each block of them: NF4 and FP4.
    Packed4Bit(Packed4Bit<'a>),
    /// A byte a number, and a scale for each row; inputs are rounded to bytes too.
    Int8(PackedInt8<'a>),
}

impl Matrix<'_> {
    /// Refuses numbers that are not (n, k).
    fn check(&self) {
        let Self { data, n, k } = *self;
        match data {
            MatrixData::Float32(weights) => sizes::check("weights", weights.len(), &[n, k]),
            MatrixData::BFloat16(weights) => sizes::check("weights", weights.len(), &[n, k]),
            MatrixData::Packed4Bit(weights) => weights.check(n, k),
            MatrixData::Int8(weights) => weights.check(n, k),
        }
    }
}

/// What becomes of the products.
#[derive(Debug, Clone, Copy, Default)]
pub struct Epilogue<'a> {
    /// Added to each row of outputs: (n).
    pub bias: Option<&'a [f32]>,
    /// Whether the result is added to what the output holds already (a residual connection).
    pub accumulate: bool,
    /// Applied last.
    pub activation: Option<Activation>,
}

/// Rows of inputs that are converted to another format, brought into another order, or copied apart at once: of
/// thousands, the copy would be memory fresh from the system each time.
const CONVERTED: usize = 512;

/// Rows of a thread's part are a multiple of this, so that tiles come out even.
fn rows_together(isa: Isa) -> usize {
    match isa {
        #[cfg(target_arch = "x86_64")]
        Isa::Amx(_) => amx::BLOCK,
        _ => 24,
    }
}

/// `out[m, n] = sum_k x[m, k] * weight[n, k]`, and what the epilogue says.
///
/// `x` (M, K) and `out` (M, N). Of no inputs, or no outputs, nothing is computed.
///
/// # Panics
/// Slices whose lengths contradict these shapes, or the matrix its own; rows of no numbers, and of more bytes than
/// int32 has room for the products of; blocks that are not a power of two from 32 on.
pub fn matmul(scope: &ThreadScope, x: &[f32], matrix: Matrix<'_>, epilogue: Epilogue<'_>, out: &mut [f32]) {
    matmul_with(Isa::best(), scope, x, matrix, epilogue, out);
}

/// As [`matmul`], with an instruction set of one's choice, to measure it.
///
/// # Panics
/// As [`matmul`].
pub fn matmul_with(
    isa: Isa,
    scope: &ThreadScope,
    x: &[f32],
    matrix: Matrix<'_>,
    epilogue: Epilogue<'_>,
    out: &mut [f32],
) {
    let Matrix { data, n, k } = matrix;
    assert!(k > 0 && x.len().is_multiple_of(k), "inputs: {}, not whole rows of {k}", x.len());
    let m = x.len() / k;
    sizes::check("outputs", out.len(), &[m, n]);
    matrix.check();
    if let Some(bias) = epilogue.bias {
        sizes::check("bias", bias.len(), &[n]);
    }
    if out.is_empty() {
        return;
    }
    #[cfg(target_arch = "x86_64")]
    let isa = if let Isa::Amx(amx) = isa { amx.for_product(m, data) } else { isa };
    match data {
        MatrixData::Float32(weights) => in_parts(x, out, (n, k), &mut |x, out| {
            let (m, stride) = (x.len() / k, row_stride::<f32>(isa, k));
            let copy = (stride != k && m >= COPIED_APART).then(|| {
                let mut copy = Scratch::<f32>::any(m * stride);
                split_rows(scope, &mut copy, (stride, k), &|row, out| out.copy_from_slice(&x[row * k..(row + 1) * k]));
                copy
            });
            let (x, x_stride) = copy.as_ref().map_or((x, k), |copy| (&**copy, stride));
            full(isa, scope, Operands { weights, x, x_stride, m, k }, epilogue, out, &|gemm| isa.dispatch(gemm));
        }),
        // All inputs of an int8 product have a say in which columns are kept out of it.
        MatrixData::Int8(weights) => int8::matmul(isa, scope, x, weights, (n, k), epilogue, out),
        MatrixData::BFloat16(weights) => in_parts(x, out, (n, k), &mut |x, out| {
            bfloat16::matmul(isa, scope, x, weights, k, epilogue, out);
        }),
        MatrixData::Packed4Bit(weights) => in_parts(x, out, (n, k), &mut |x, out| {
            packed4bit::matmul(isa, scope, x, weights, k, epilogue, out);
        }),
    }
}

/// Calls `run` for some rows of inputs at a time, and the outputs that belong to them.
fn in_parts(x: &[f32], out: &mut [f32], (n, k): (usize, usize), run: &mut dyn FnMut(&[f32], &mut [f32])) {
    x.chunks(CONVERTED * k).zip(out.chunks_mut(CONVERTED * n)).for_each(|(x, out)| run(x, out));
}

/// From so many rows of inputs on, it pays to copy them for [`row_stride`]'s sake.
const COPIED_APART: usize = 12;

/// How far apart rows of `k` inputs begin best. Where rows are a multiple of 4 KiB long, the lines that a tile reads at
/// once, of inputs and, if those lie so by chance, of weights, belong to one set of the first-level cache, which has not
/// room for all. With a stride of two lines more, products of 512 rows take 0.78 to 1.0 of the time, by where the weights
/// lie (bfloat16, the shapes of Llama 3.2 1B, AMD Zen 4). AMX brings inputs into an order of its own.
fn row_stride<T>(isa: Isa, k: usize) -> usize {
    match isa {
        #[cfg(target_arch = "x86_64")]
        Isa::Amx(_) => k,
        _ if (k * size_of::<T>()).is_multiple_of(4096) => k + 128 / size_of::<T>(),
        _ => k,
    }
}

/// Calls `write(row, out)` for rows of `k` numbers that begin `stride` apart, shared among the threads.
fn split_rows<T: Send>(
    scope: &ThreadScope,
    rows: &mut [T],
    (stride, k): (usize, usize),
    write: &(dyn Fn(usize, &mut [T]) + Sync),
) {
    scope.split_mut(rows, stride, 4 * k, &|first, part| {
        for (row, out) in (first..).zip(part.chunks_exact_mut(stride)) {
            write(row, &mut out[..k]);
        }
    });
}

/// A product of numbers of one format, as they are; `run` runs the kernel.
fn full<T: Copy + Sync>(
    isa: Isa,
    scope: &ThreadScope,
    operands: Operands<'_, T>,
    epilogue: Epilogue<'_>,
    out: &mut [f32],
    run: &(dyn Fn(Gemm<'_, T>) + Sync),
) {
    let Operands { m, k, .. } = operands;
    divide(isa, scope, out, m, m * k, epilogue, &|rows, out| run(Gemm { operands, rows, out }));
}

/// A thread's rows of weights.
pub(crate) struct Gemm<'a, T> {
    pub operands: Operands<'a, T>,
    pub rows: Range<usize>,
    pub out: Block<'a, f32>,
}

impl<S: Simd, T: Factor<S, Sum = f32>> Kernel<S> for Gemm<'_, T> {
    #[inline(always)]
    fn run(mut self, simd: S) {
        gemm(simd, self.operands, self.rows, &mut self.out);
    }
}

/// So many times [`rows_together`] stay in a cache while blocks of inputs go by.
const IN_CACHE: usize = 10;

/// Divides the rows of weights, which are the columns of `out` (m, n), among the threads: calls `run` for blocks of
/// them, between what comes before and after the product. `work` is the number of multiplications for each row.
pub(crate) fn divide(
    isa: Isa,
    scope: &ThreadScope,
    out: &mut [f32],
    m: usize,
    work: usize,
    epilogue: Epilogue<'_>,
    run: &(dyn Fn(Range<usize>, Block<'_, f32>) + Sync),
) {
    let n = out.len() / m;
    scope.split_columns(out, n, rows_together(isa), work, &|rows, mut out| {
        (0..m).for_each(|m| epilogue.begin(out.row(m), rows.clone()));
        for some in blocks(rows.clone(), IN_CACHE * rows_together(isa)) {
            let columns = some.start - rows.start..some.end - rows.start;
            run(some, out.reborrow().into_columns(columns));
        }
        if let Some(activation) = epilogue.activation {
            (0..m).for_each(|m| elementwise::activate(isa, out.row(m), activation));
        }
    });
}

impl Epilogue<'_> {
    /// What the sums are added to.
    fn begin(&self, out: &mut [f32], columns: Range<usize>) {
        match (self.bias, self.accumulate) {
            (Some(bias), false) => out.copy_from_slice(&bias[columns]),
            (Some(bias), true) => out.iter_mut().zip(&bias[columns]).for_each(|(out, bias)| *out += bias),
            (None, false) => out.fill(0.0),
            (None, true) => (),
        }
    }
}

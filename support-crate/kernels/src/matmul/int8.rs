//! Products with weights of 8 bits and inputs that are rounded to 8 bits: each row by its own scale as it comes,
//! or all by scales that were fixed beforehand.
//!
//! Sums are exact integers, so neither their order nor the instructions matter.
//!
//! Source: Dettmers et al. 2022, arXiv:2208.07339 (LLM.int8()); `MatMul8bitLt` in bitsandbytes. Fixed scales: static
//! quantization, as in PyTorch's `torch.ao.quantization`.

use std::num::Wrapping;
use std::ops::Range;

use super::gemm::{INPUT_BLOCK, Operands, blocks, gemm};
use super::{Product, Weights, row_stride, split_rows};
#[cfg(target_arch = "x86_64")]
use crate::amx;
use crate::elementwise;
use crate::isa::Isa;
use crate::rounding::{LARGEST, PER_PRODUCT, PER_STEP, int8_factor};
use crate::scratch::Scratch;
use crate::simd::{self, Kernel, Simd};
use crate::sizes;
use crate::strided::{Block, Divided};
use crate::threads::ThreadScope;

/// A matrix (n, k) of rows with a scale each.
#[derive(Debug, Clone, Copy)]
pub struct PackedInt8<'a> {
    /// Row by row.
    pub values: &'a [i8],
    /// The largest absolute value of each row: `SCB` in bitsandbytes. A weight is `value * absmax / 127`.
    pub absmax: &'a [f32],
    /// The sum of each row's values.
    pub sums: &'a [i32],
    /// How inputs become bytes.
    pub activations: ActivationQuant<'a>,
}

/// How inputs become 8 bits.
#[derive(Debug, Clone, Copy)]
pub enum ActivationQuant<'a> {
    /// Each row by its largest absolute value.
    Dynamic {
        /// Columns in which any row of inputs reaches this are multiplied as they are, and inputs are rounded to
        /// float16 first, as bitsandbytes does; 0 for neither.
        threshold: f32,
    },
    /// All by the same scales.
    Static {
        /// What the input of each column is multiplied by: (k).
        factors: &'a [f32],
        /// What the products are multiplied by, besides the scale of a row of weights.
        scale: f32,
    },
}

/// The most products of bytes, of magnitudes up to 127 and 128, whose sum always fits into an int32.
const MAX_COLUMNS: usize = i32::MAX as usize / (127 * 128);

impl PackedInt8<'_> {
    /// Panics unless this is a matrix (n, k).
    fn check(&self, n: usize, k: usize) {
        assert!(
            k <= MAX_COLUMNS,
            "sums of {k} products of bytes do not fit into int32, which has room for {MAX_COLUMNS}"
        );
        sizes::check("weights", self.values.len(), &[n, k]);
        sizes::check("scales", self.absmax.len(), &[n]);
        sizes::check("sums", self.sums.len(), &[n]);
        if let ActivationQuant::Static { factors, .. } = self.activations {
            sizes::check("factors", factors.len(), &[k]);
        }
    }

    /// What 1 stands for in each row of weights, where inputs have fixed scales: divided once, not for each output.
    fn static_steps(&self) -> Option<Scratch<f32>> {
        matches!(self.activations, ActivationQuant::Static { .. }).then(|| {
            let mut steps = Scratch::uninit(self.absmax.len());
            steps.iter_mut().zip(self.absmax).for_each(|(step, absmax)| *step = absmax / LARGEST);
            steps
        })
    }
}

/// Rows of inputs in 8 bits.
struct Rounded {
    /// (m, k), rows `stride` apart, shifted by 128 if the instructions take unsigned bytes.
    values: Scratch<i8>,
    stride: usize,
    /// One for each row: its largest absolute value, which is 127 in 8 bits, or the fixed scale. NaN for a row that 8
    /// bits cannot represent.
    scales: Scratch<f32>,
    /// The sum of each row's negative values, where [`Simd::INVERTS`] asks for it.
    negatives: Scratch<i32>,
    /// Columns that are multiplied as they are, in ascending order.
    outliers: Scratch<i32>,
    /// The inputs of these columns, (m, outliers).
    kept: Scratch<f32>,
}

/// All rows of inputs at once: which columns are outliers depends on every one of them.
impl Weights for PackedInt8<'_> {
    fn multiply(&self, product: Product<'_>) {
        let isa = product.scope.isa().for_bytes(product.m());
        let product = product.with_isa(isa);
        let Product { scope, x, n, k, .. } = product;
        self.check(n, k);
        if product.out.is_empty() {
            return;
        }
        let m = product.m();
        let inputs = &match self.activations {
            ActivationQuant::Dynamic { threshold } => round(isa, x, k, threshold, scope),
            ActivationQuant::Static { factors, scale } => round_by(isa, x, factors, scale, scope),
        };
        let outlier_weights = &weights_of(&inputs.outliers, *self, (n, k), scope);
        let steps = self.static_steps();
        let steps = steps.as_deref().unwrap_or(self.absmax);
        let factors = &Factors { weights: *self, inputs, steps, outlier_weights, m, k };
        #[cfg(target_arch = "x86_64")]
        if let Isa::Amx(amx) = isa {
            return amx::multiply(amx, &inputs.values, factors, product);
        }
        product.divide(m * k / 4, &|rows, out| isa.dispatch_bytes(Part { factors, rows, out }));
    }
}

impl Rounded {
    /// Rows of `k` bytes: `round` writes one and returns its scale.
    fn rows(isa: Isa, (m, k): (usize, usize), scope: &ThreadScope, round: &RoundRow<'_>) -> Self {
        let (form, stride) = (isa.byte_form(), row_stride::<i8>(isa, k));
        let mut values = Scratch::<i8>::uninit(m * stride);
        let inverted = usize::from(form.inverts);
        let (mut scales, mut negatives) = (Scratch::<f32>::uninit(m), Scratch::<i32>::uninit(m * inverted));
        let of_rows = (Divided::new(&mut scales, 1), Divided::new(&mut negatives, 1));
        split_rows(scope, &mut values, (stride, k), &|row, out| {
            let scale = round(row, out);
            // SAFETY: each row is of one call.
            unsafe { of_rows.0.block(row..row + 1, 0..1) }.row(0)[0] = scale;
            if form.inverts {
                // SAFETY: each row is of one call, here, too.
                let mut negatives = unsafe { of_rows.1.block(row..row + 1, 0..1) };
                negatives.row(0)[0] = elementwise::sum_of_negatives(isa, out);
            }
            if form.unsigned {
                out.iter_mut().for_each(|value| *value ^= i8::MIN);
            }
        });
        Self { values, stride, scales, negatives, outliers: Scratch::uninit(0), kept: Scratch::uninit(0) }
    }
}

/// Writes the bytes of a row, by its number, and returns its scale.
type RoundRow<'a> = dyn Fn(usize, &mut [i8]) -> f32 + Sync + 'a;

/// Rounds each row by its largest absolute value.
fn round(isa: Isa, x: &[f32], k: usize, threshold: f32, scope: &ThreadScope) -> Rounded {
    let (m, narrows) = (x.len() / k, threshold > 0.0);
    // All that is done with a row while it is in the first-level cache.
    let round_up_to = |limit: f32, outliers: &[i32]| {
        Rounded::rows(isa, (m, k), scope, &|row, out| {
            let (row, mut narrow) = (&x[row * k..(row + 1) * k], narrows.then(|| Scratch::uninit(k)));
            let row = narrow.as_deref_mut().map_or(row, |narrow| as_f16(isa, row, narrow));
            let largest = elementwise::absmax_up_to(isa, row, limit);
            elementwise::to_bytes(isa, row, int8_factor(largest), out);
            outliers.iter().for_each(|&column| out[column as usize] = 0);
            largest
        })
    };
    // Without a threshold an infinity counts too: it makes the row NaN, where it can be seen. With one, almost always no
    // row reaches it, and only then are columns looked for. NaN may hide what is large.
    let rounded = round_up_to(f32::INFINITY, &[]);
    let reaches = |row: usize| rounded.scales[row] >= threshold || rounded.scales[row].is_nan();
    let reaching: Vec<usize> = (0..m).filter(|&row| narrows && reaches(row)).collect();
    if reaching.is_empty() {
        return rounded;
    }
    let outliers = columns_that_reach(isa, reaching.iter().map(|row| &x[row * k..(row + 1) * k]), k, threshold);
    let mut kept = Scratch::<f32>::uninit(m * outliers.len());
    let of_rows = x.chunks_exact(k).flat_map(|row| outliers.iter().map(|&column| row[column as usize]));
    kept.iter_mut().zip(of_rows).for_each(|(kept, x)| *kept = x);
    let rounded = round_up_to(threshold.next_down(), &outliers);
    Rounded { outliers, kept, ..rounded }
}

/// Rounds each column by its factor: one pass over the inputs.
fn round_by(isa: Isa, x: &[f32], factors: &[f32], scale: f32, scope: &ThreadScope) -> Rounded {
    let k = factors.len();
    Rounded::rows(isa, (x.len() / k, k), scope, &|row, out| {
        // Clipping would hide what is not finite: such rows become NaN, as they do with scales of their own.
        let is_finite = elementwise::to_bytes_by(isa, &x[row * k..(row + 1) * k], factors, out);
        if is_finite { scale } else { f32::NAN }
    })
}

fn as_f16<'a>(isa: Isa, row: &[f32], out: &'a mut [f32]) -> &'a [f32] {
    elementwise::round_to_f16_with(isa, row, out);
    out
}

/// The columns in which any of these rows, rounded to float16, reaches the threshold.
fn columns_that_reach<'a>(isa: Isa, rows: impl Iterator<Item = &'a [f32]>, k: usize, threshold: f32) -> Scratch<i32> {
    let (mut columns, mut narrow) = (Scratch::<i32>::uninit(k), Scratch::uninit(k));
    columns.fill(0);
    for row in rows {
        let row = as_f16(isa, row, &mut narrow);
        columns.iter_mut().zip(row).for_each(|(reached, x)| *reached |= i32::from(x.abs() >= threshold));
    }
    let mut count = 0;
    for column in 0..k {
        if columns[column] != 0 {
            columns[count] = column as i32;
            count += 1;
        }
    }
    columns.truncate(count);
    columns
}

/// The weights of some columns as the numbers that they stand for, (columns, n): those that are added to neighbouring
/// outputs lie together.
fn weights_of(columns: &[i32], weights: PackedInt8<'_>, (n, k): (usize, usize), scope: &ThreadScope) -> Scratch<f32> {
    let mut numbers = Scratch::<f32>::uninit(columns.len() * n);
    if !columns.is_empty() {
        let numbers = &Divided::new(&mut numbers, n);
        scope.split(n, 16, columns.len(), &|rows| {
            // SAFETY: the ranges of different calls do not overlap.
            let mut out = unsafe { numbers.block(0..columns.len(), rows.clone()) };
            for (at, row) in rows.enumerate() {
                let (values, absmax) = (&weights.values[row * k..(row + 1) * k], weights.absmax[row]);
                for (i, &column) in columns.iter().enumerate() {
                    out.row(i)[at] = f32::from(values[column as usize]) * absmax * PER_STEP;
                }
            }
        });
    }
    numbers
}

struct Factors<'a> {
    weights: PackedInt8<'a>,
    inputs: &'a Rounded,
    /// Of each row of weights its largest absolute value; where inputs have fixed scales, what 1 stands for in it.
    steps: &'a [f32],
    /// The result of [`weights_of`] for the outliers: (outliers, n).
    outlier_weights: &'a [f32],
    m: usize,
    k: usize,
}

/// How an instruction set multiplies bytes: as [`gemm`] does, unless it has a faster way to the same sums.
pub trait ByteProducts: Simd {
    #[inline(always)]
    fn gemm_bytes(self, operands: Operands<'_, i8>, rows: Range<usize>, out: &mut Block<'_, Wrapping<i32>>) {
        gemm(self, operands, rows, out);
    }
}

/// For sets that have no other way.
macro_rules! as_gemm {
    ($($simd:ty),+) => { $(impl ByteProducts for $simd {})+ };
}
as_gemm!(simd::Scalar);
#[cfg(target_arch = "x86_64")]
as_gemm!(simd::Avx2, simd::Avx2Vnni, simd::Avx512, simd::Avx512Vnni);
#[cfg(target_arch = "aarch64")]
as_gemm!(simd::Neon, simd::NeonDotprod);

#[cfg(target_arch = "aarch64")]
impl ByteProducts for simd::NeonBf16 {
    #[inline(always)]
    fn gemm_bytes(self, operands: Operands<'_, i8>, rows: Range<usize>, out: &mut Block<'_, Wrapping<i32>>) {
        super::smmla::gemm(self, operands, rows, out);
    }
}

/// A thread's rows of weights.
struct Part<'a> {
    factors: &'a Factors<'a>,
    rows: Range<usize>,
    out: Block<'a, f32>,
}

impl<S: ByteProducts> Kernel<S> for Part<'_> {
    #[inline(always)]
    fn run(self, simd: S) {
        let Self { factors, rows, mut out } = self;
        let Factors { weights, inputs, m, k, .. } = *factors;
        let mut sums = Scratch::<i32>::uninit(INPUT_BLOCK.min(m) * rows.len());
        for block in blocks(0..m, INPUT_BLOCK) {
            let sums = &mut sums[..block.len() * rows.len()];
            sums.fill(0);
            let x = &inputs.values[block.start * inputs.stride..];
            let operands = Operands { weights: weights.values, x, x_stride: inputs.stride, m: block.len(), k };
            simd.gemm_bytes(operands, rows.clone(), &mut Block::new(wrapping(sums), rows.len()));
            for (m, sums) in block.zip(sums.chunks_exact(rows.len())) {
                let more = if S::INVERTS { inputs.negatives[m] } else { 0 };
                let shift = if S::UNSIGNED { 128 } else { 0 };
                factors.add_to((shift, more), m, rows.clone(), sums, out.row(m));
            }
        }
    }
}

fn wrapping(sums: &mut [i32]) -> &mut [Wrapping<i32>] {
    // SAFETY: `Wrapping` is a transparent wrapper.
    unsafe { &mut *(std::ptr::from_mut(sums) as *mut [Wrapping<i32>]) }
}

impl Factors<'_> {
    /// Adds sums of products of bytes to the output of input `m`, as the numbers that they stand for, and
    /// what was kept out of them. Inputs were shifted by `shift`, and `more` has been added to the sums.
    #[inline(always)]
    fn add_to(&self, (shift, more): (i32, i32), m: usize, rows: Range<usize>, sums: &[i32], out: &mut [f32]) {
        let Self { weights, inputs, outlier_weights, .. } = self;
        let (steps, row_sums) = (&self.steps[rows.clone()], &weights.sums[rows.clone()]);
        let scale = inputs.scales[m];
        // Modulo 2^32, as the sums are: the difference fits.
        let exact = |sum: i32, row_sum: i32| sum.wrapping_sub(row_sum.wrapping_mul(shift)).wrapping_sub(more) as f32;
        let numbers = out.iter_mut().zip(sums).zip(row_sums).zip(steps);
        match weights.activations {
            ActivationQuant::Dynamic { .. } => numbers.for_each(|(((out, sum), row_sum), absmax)| {
                *out += exact(*sum, *row_sum) * (scale * absmax) * PER_PRODUCT;
            }),
            ActivationQuant::Static { .. } => numbers.for_each(|(((out, sum), row_sum), step)| {
                *out += exact(*sum, *row_sum) * (step * scale);
            }),
        }
        let count = inputs.outliers.len();
        let weights = outlier_weights.chunks_exact(weights.absmax.len());
        for (x, weights) in inputs.kept[m * count..(m + 1) * count].iter().zip(weights) {
            out.iter_mut().zip(&weights[rows.clone()]).for_each(|(out, weight)| *out += x * weight);
        }
    }
}

#[cfg(target_arch = "x86_64")]
impl amx::TileProduct for Factors<'_> {
    type Number = i8;

    #[inline(always)]
    fn stored(&self) -> Option<&[i8]> {
        Some(self.weights.values)
    }

    #[inline(always)]
    fn row(&self, _: crate::simd::Avx512Bf16, row: usize, columns: Range<usize>, out: &mut [i8]) {
        out.copy_from_slice(&self.weights.values[row * self.k..][columns]);
    }

    #[inline(always)]
    fn add_to(&self, m: usize, rows: Range<usize>, sums: &[u32; amx::BLOCK], out: &mut [f32]) {
        self.add_to((0, 0), m, rows.clone(), &sums.map(u32::cast_signed)[..rows.len()], out);
    }
}

#[cfg(test)]
#[path = "int8_tests.rs"]
mod tests;

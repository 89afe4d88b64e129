//! Products of inputs with a matrix of weights, from one row of inputs to thousands.
//!
//! Inputs and weights are read along K, which is the order that they are stored in: nothing is transposed, a
//! decode step streams the weights once, and a prompt takes them in tiles of several rows of inputs by several rows of
//! weights.

mod bfloat16;
mod code_bits;
mod decode;
#[cfg(target_arch = "aarch64")]
mod decode_neon;
#[cfg(target_arch = "x86_64")]
mod decode_x86;
mod decoded;
mod float32;
mod gemm;
mod grouped_int;
mod input_blocks;
mod int8;
mod ordered_inputs;
mod packed4bit;
mod q8_0_rows;
mod scales;
#[cfg(target_arch = "aarch64")]
mod smmla;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::ops::Range;

pub use code_bits::{CodeBits, PANEL, pack_codes};
pub(crate) use gemm::{Operands, blocks, gemm};
pub use grouped_int::GroupedInt;
pub use int8::{ActivationQuant, PackedInt8};
pub use packed4bit::{Compute, Packed4Bit};
pub use q8_0_rows::Q8_0Rows;
pub use scales::Scales;

#[cfg(target_arch = "x86_64")]
use crate::amx;
use crate::elementwise::{self, Activation};
use crate::isa::Isa;
use crate::scratch::{Reused, Scratch};
use crate::simd::{Kernel, Simd};
use crate::sizes;
use crate::strided::{Block, Divided};
use crate::threads::ThreadScope;
use gemm::Factor;
pub(crate) use gemm::Stored;
use input_blocks::RoundedBlocks;

/// A matrix of weights, (n, k) row by row.
#[derive(Clone, Copy)]
pub struct Matrix<'a> {
    /// Its numbers.
    pub weights: &'a dyn Weights,
    /// Outputs.
    pub n: usize,
    /// Inputs.
    pub k: usize,
}

/// Weights in a storage format, each of which is a file of this folder: `&[f32]`, `&[bf16]`, [`Packed4Bit`],
/// [`PackedInt8`], [`GroupedInt`], [`Q8_0Rows`]. Types that own such weights implement this by calling theirs.
pub trait Weights: Sync {
    /// Computes a product.
    ///
    /// # Panics
    /// The weights are not (n, k), as the product has it.
    fn multiply(&self, product: Product<'_>);
}

/// Rows of inputs of several products, (m, k). Formats that round them to 8 bits in blocks ([`GroupedInt`], [`Q8_0Rows`])
/// do so once for all that round alike.
pub struct Inputs<'a> {
    x: &'a [f32],
    rounded: RefCell<Option<RoundedBlocks>>,
}

/// A product to be computed: inputs and outputs whose sizes agree, and how. Only [`matmul`] makes one.
pub struct Product<'a> {
    pub(crate) scope: &'a ThreadScope,
    /// Of the scope; tiles only if there are enough rows for them. Bytes have a threshold of their own.
    pub(crate) isa: Isa,
    /// The number of rows in a thread's part is a multiple of this, so that they divide into whole tiles.
    pub(crate) together: usize,
    /// (m, k)
    pub(crate) x: &'a [f32],
    /// All of `x` as the last product rounded it; none for a part of the inputs.
    rounded: Option<&'a RefCell<Option<RoundedBlocks>>>,
    pub(crate) n: usize,
    pub(crate) k: usize,
    pub(crate) epilogue: Epilogue<'a>,
    /// (m, n)
    pub(crate) out: &'a mut [f32],
}

/// What is done with the products.
#[derive(Debug, Clone, Copy, Default)]
pub struct Epilogue<'a> {
    /// Added to each row of outputs: (n).
    pub bias: Option<&'a [f32]>,
    /// Whether the result is added to what the output holds already (a residual connection).
    pub accumulate: bool,
    /// Applied last.
    pub activation: Option<Activation>,
}

/// Rows of inputs that are converted to another format, brought into another order, or copied apart at once: for
/// thousands, the copy would need fresh memory from the system each time.
const CONVERTED: usize = 512;

/// [`Product::together`], unless a format has its own.
fn rows_together(isa: Isa) -> usize {
    match isa {
        #[cfg(target_arch = "x86_64")]
        Isa::Amx(_) => amx::BLOCK,
        _ => 24,
    }
}

/// `out[m, n] = sum_k x[m, k] * weight[n, k]`, and what the epilogue says.
///
/// `x` is (M, K) and `out` (M, N). If there are no inputs, or no outputs, nothing is computed.
///
/// # Panics
/// Slices whose lengths contradict these shapes, or a matrix that contradicts its own; rows of no numbers, or of so
/// many bytes that the sum of their products might not fit into int32; blocks that are not a multiple of 32; columns
/// that do not exist.
pub fn matmul(scope: &ThreadScope, x: &[f32], matrix: Matrix<'_>, epilogue: Epilogue<'_>, out: &mut [f32]) {
    Inputs::new(x).multiply(scope, matrix, epilogue, out);
}

impl<'a> Inputs<'a> {
    /// Of rows (m, k).
    pub fn new(x: &'a [f32]) -> Self {
        Self { x, rounded: RefCell::new(None) }
    }

    /// The rows.
    pub fn rows(&self) -> &'a [f32] {
        self.x
    }

    /// As [`matmul`].
    ///
    /// # Panics
    /// As [`matmul`].
    pub fn multiply(&self, scope: &ThreadScope, matrix: Matrix<'_>, epilogue: Epilogue<'_>, out: &mut [f32]) {
        let (Matrix { weights, n, k }, x) = (matrix, self.x);
        assert!(k > 0 && x.len().is_multiple_of(k), "inputs: {}, not whole rows of {k}", x.len());
        let m = x.len() / k;
        sizes::check("outputs", out.len(), &[m, n]);
        if let Some(bias) = epilogue.bias {
            sizes::check("bias", bias.len(), &[n]);
        }
        let (isa, rounded) = (scope.isa().for_rows(m), Some(&self.rounded));
        weights.multiply(Product { scope, isa, together: rows_together(isa), x, rounded, n, k, epilogue, out });
    }
}

impl Product<'_> {
    fn m(&self) -> usize {
        self.x.len() / self.k
    }

    /// The same product by another instruction set, in parts that are whole tiles of that.
    fn with_isa(self, isa: Isa) -> Self {
        Self { isa, together: rows_together(isa), ..self }
    }

    /// The same product, computed by vectors.
    fn without_tiles(self) -> Self {
        let isa = self.isa.without_tiles();
        self.with_isa(isa)
    }

    /// The same product for some rows of inputs at a time, in order; none if there are no outputs.
    fn parts(&mut self) -> impl Iterator<Item = Product<'_>> {
        let Self { scope, isa, together, x, rounded, n, k, epilogue, ref mut out } = *self;
        let rounded = rounded.filter(|_| self.x.len() / k <= CONVERTED);
        // Where there are no inputs, their rows may be of any length.
        let (inputs, outputs) = [k, n].map(|of_rows| CONVERTED.saturating_mul(of_rows).max(1)).into();
        let (inputs, outputs) = (x.chunks(inputs), out.chunks_mut(outputs));
        inputs.zip(outputs).map(move |(x, out)| Product { scope, isa, together, x, rounded, n, k, epilogue, out })
    }

    /// The inputs as numbers `T`, which `convert` makes of a row of them, and how far apart rows begin.
    fn rows_apart<T: Reused + Send>(&self, convert: &(dyn Fn(&[f32], &mut [T]) + Sync)) -> (Scratch<T>, usize) {
        let Self { scope, isa, x, k, .. } = *self;
        let stride = row_stride::<T>(isa, k);
        let mut rows = Scratch::uninit(self.m() * stride);
        split_rows(scope, &mut rows, (stride, k), &|row, out| convert(&x[row * k..(row + 1) * k], out));
        (rows, stride)
    }

    /// Divides the rows of weights, which are the columns of the outputs, among the threads: calls `run` for blocks of
    /// them, between what comes before and after the product. `work` is the number of multiplications for each row.
    pub(crate) fn divide(self, work: usize, run: &(dyn Fn(Range<usize>, Block<'_, f32>) + Sync)) {
        let m = self.m();
        let Self { scope, isa, together, n, epilogue, out, .. } = self;
        let out = &Divided::new(out, n);
        scope.split(n, together, work, &|rows| {
            // SAFETY: the ranges of different calls do not overlap.
            let mut out = unsafe { out.block(0..m, rows.clone()) };
            (0..m).for_each(|m| epilogue.begin(out.row(m), rows.clone()));
            for some in blocks(rows.clone(), IN_CACHE * together) {
                let columns = some.start - rows.start..some.end - rows.start;
                run(some, out.reborrow().into_columns(columns));
            }
            if let Some(activation) = epilogue.activation {
                (0..m).for_each(|m| elementwise::activate_with(isa, out.row(m), activation));
            }
        });
    }
}

/// This many times [`Product::together`] rows of weights stay in a cache while blocks of inputs go by.
const IN_CACHE: usize = 10;

/// The best distance between the beginnings of rows of `k` inputs. Where rows are a multiple of 4 KiB long, the lines
/// that a tile reads at once, of inputs and, if those happen to be aligned so, of weights, belong to one set of the
/// first-level cache, which does not have room for all of them. With a stride of two lines more, products of 512 rows
/// take 0.78 to 1.0 of the time, depending on where the weights lie (bfloat16, the shapes of Llama 3.2 1B, AMD Zen 4).
/// AMX brings inputs into an order of its own.
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

/// A thread's rows of weights.
pub(crate) struct Gemm<'a, T, W = T> {
    pub operands: Operands<'a, T, W>,
    pub rows: Range<usize>,
    pub out: Block<'a, f32>,
}

impl<S: Simd, T: Factor<S, Sum = f32>, W: Stored<S, T>> Kernel<S> for Gemm<'_, T, W> {
    #[inline(always)]
    fn run(mut self, simd: S) {
        gemm(simd, self.operands, self.rows, &mut self.out);
    }
}

impl Epilogue<'_> {
    /// Initialises the outputs that the sums are added to.
    fn begin(&self, out: &mut [f32], columns: Range<usize>) {
        match (self.bias, self.accumulate) {
            (Some(bias), false) => out.copy_from_slice(&bias[columns]),
            (Some(bias), true) => out.iter_mut().zip(&bias[columns]).for_each(|(out, bias)| *out += bias),
            (None, false) => out.fill(0.0),
            (None, true) => (),
        }
    }
}

//! Groups of 4-bit weights with zero points.

use quantlab_kernels::{Compute, Packed4Bit, Product, Weights as KernelWeights, thread_scope};
use safetensors::Dtype;

use super::four_bit::compute;
use super::parts::{FullPrecision, in_parts, in_parts_of};
use super::{Operands, QuantizedWeight, StateBytes, float32_bytes};
use crate::buffer::{Buffer, Pooled};
use crate::error::{Error, Result};
use crate::model::Precision;
use crate::model::weights::StateTensor;
use crate::quant::{
    AffineInt4, Factor, Fit, PackedLayer, Rounding, last_code, quantize_affine_groups, quantize_gptq_rows,
};

/// A matrix of affine int4.
#[derive(Debug)]
pub(in crate::model) struct Int4Matrix {
    quantized: AffineInt4,
    /// Which input each column is multiplied with, if they are in another order.
    columns: Option<Vec<u32>>,
    compute: Compute,
}

/// Rows that GPTQ quantizes at once: with fewer, a thread would read the factor of the Hessian more often; with more,
/// their weights would not stay in its cache.
const GPTQ_ROWS: usize = 64;

/// Quantizes weights of full precision, of the layer `module`.
///
/// # Errors
/// A weight that is NaN or infinite, by output and input; rows that are not whole groups; a layer without a Hessian, or
/// with one of another number of inputs.
pub(super) fn quantize(
    weights: FullPrecision<'_>,
    module: &str,
    group_size: usize,
    bits: u32,
    rounding: &Rounding,
) -> Result<AffineInt4> {
    let k = weights.tensor.shape[1];
    AffineInt4::check_rows(k, group_size)?;
    let fitted = |weights, fit| {
        in_parts(weights, (2, group_size), f32::is_finite, |numbers, packed, scales| {
            quantize_affine_groups(numbers, group_size, bits, fit, packed, scales)
        })
    };
    let (packed, scales) = match rounding {
        Rounding::Nearest => fitted(weights, Fit::Nearest)?,
        Rounding::Clipping => fitted(weights, Fit::Clipping)?,
        Rounding::Hqq => fitted(weights, Fit::Hqq)?,
        Rounding::Gptq(hessians, options) => {
            let factor = hessians.factor(module, k, Factor::tile_for(group_size), options.act_order)?;
            let (last, fit) = (last_code(bits)?, options.fit());
            in_parts_of(weights, (2, group_size), GPTQ_ROWS * k, f32::is_finite, |numbers, packed, scales| {
                quantize_gptq_rows(numbers, &factor, group_size, last, fit, packed, scales)
            })?
        }
    };
    AffineInt4::with_packed(packed, &scales, k, group_size)
}

impl Int4Matrix {
    /// To be multiplied in `compute_dtype`.
    pub fn new(quantized: AffineInt4, compute_dtype: Precision) -> Self {
        Self { quantized, columns: None, compute: compute(compute_dtype) }
    }

    /// A layer of a checkpoint that [`PackedLayer::is_int4`] in groups of `group` weights.
    ///
    /// # Errors
    /// No memory for it.
    pub fn of_checkpoint(layer: &PackedLayer, group: usize, compute_dtype: Precision) -> Result<Self> {
        let ([n, k], columns) = (layer.shape(), layer.order());
        let mut packed = Pooled::zeroed(n * k / 2)?;
        thread_scope().split_mut(&mut packed, k / 2, 4 * k, &|first, part| {
            let mut rows = layer.rows();
            for (row, packed) in (first..).zip(part.chunks_exact_mut(k / 2)) {
                rows.pack(row, columns.as_deref(), packed);
            }
        });
        let quantized = AffineInt4::with_packed(Buffer::Pooled(packed), &layer.scales(group), k, group)?;
        Ok(Self { quantized, columns, compute: compute(compute_dtype) })
    }

    /// In the order of inputs, from that of the columns.
    fn in_order<T: Copy + Default>(&self, numbers: Vec<T>) -> Vec<T> {
        let Some(columns) = &self.columns else { return numbers };
        let mut ordered = vec![T::default(); numbers.len()];
        for (from, to) in numbers.chunks_exact(columns.len()).zip(ordered.chunks_exact_mut(columns.len())) {
            columns.iter().zip(from).for_each(|(&column, &number)| to[column as usize] = number);
        }
        ordered
    }

    /// The zero points, as compressed-tensors packs them: eight rows in a word, (ceil(n / 8), groups).
    ///
    /// # Errors
    /// One that is not a whole number from 0 to 15.
    fn packed_zeros(&self) -> Result<Vec<u8>> {
        let ([n, k], group) = (self.shape(), self.quantized.group_size());
        let groups = k / group;
        let mut words = vec![0_u32; n.div_ceil(8) * groups];
        for (index, (scale, minimum)) in self.quantized.scales().iter().zip(self.quantized.minima()).enumerate() {
            let zero = if *minimum == 0.0 { 0.0 } else { (-minimum / scale).round() };
            if !(0.0..16.0).contains(&zero) || -zero * scale != *minimum {
                return Err(Error::input(format!("a zero point is {}, not a whole number below 16", -minimum / scale))
                    .hint("keep the checkpoint that the model was loaded from"));
            }
            let (row, group) = (index / groups, index % groups);
            words[row / 8 * groups + group] |= (zero as u32) << (row % 8 * 4);
        }
        Ok(words.into_iter().flat_map(u32::to_le_bytes).collect())
    }

    fn view(&self) -> Packed4Bit<'_> {
        Packed4Bit {
            packed: self.quantized.packed(),
            absmax: self.quantized.scales(),
            minimum: Some(self.quantized.minima()),
            code: &AffineInt4::CODES,
            blocksize: self.quantized.group_size(),
            columns: self.columns.as_deref(),
            compute: self.compute,
        }
    }
}

impl KernelWeights for Int4Matrix {
    fn multiply(&self, product: Product<'_>) {
        self.view().multiply(product);
    }
}

impl QuantizedWeight for Int4Matrix {
    fn shape(&self) -> [usize; 2] {
        let k = self.quantized.columns();
        [self.quantized.minima().len() * self.quantized.group_size() / k, k]
    }

    fn code_bytes(&self) -> usize {
        let [n, k] = self.shape();
        n * k / 2
    }

    fn state_bytes(&self) -> StateBytes {
        let columns = self.columns.as_deref().map_or(0, size_of_val);
        StateBytes { all: 2 * size_of_val(self.quantized.scales()) + columns, unread: 0 }
    }

    fn operands(&self) -> Option<Operands<'_>> {
        Some(Operands::FourBit(self.view()))
    }

    fn forget_codes(&mut self) {
        self.quantized.forget_packed();
    }

    /// Two codes a byte, the first in the lower half.
    fn saved_codes(&self, codes: Vec<u8>) -> Vec<u8> {
        if self.columns.is_none() {
            return codes.into_iter().map(|byte| byte.rotate_left(4)).collect();
        }
        let single = self.in_order(codes.into_iter().flat_map(|byte| [byte >> 4, byte & 15]).collect());
        single.chunks_exact(2).map(|pair| pair[0] | pair[1] << 4).collect()
    }

    /// As `pack-quantized` of compressed-tensors has it, with scales in float32: what reads them so, as this library,
    /// has every bit.
    fn state_dict<'a>(&'a self, module: &str) -> Result<Vec<StateTensor<'a>>> {
        let ([n, k], group) = (self.shape(), self.quantized.group_size());
        let name = |part: &str| format!("{module}.weight_{part}");
        let codes = || self.saved_codes(self.quantized.packed().to_vec());
        let scales = || float32_bytes(self.quantized.scales());
        let shape = [n, k].iter().flat_map(|&size| (size as i64).to_le_bytes()).collect::<Vec<u8>>();
        let mut tensors = vec![
            StateTensor::later(name("packed"), Dtype::I32, &[n, k / 8], codes),
            StateTensor::later(name("scale"), Dtype::F32, &[n, k / group], scales),
            StateTensor::new(name("zero_point"), Dtype::I32, &[n.div_ceil(8), k / group], self.packed_zeros()?),
            StateTensor::new(name("shape"), Dtype::I64, &[2], shape),
        ];
        if self.columns.is_some() {
            let groups = self.in_order((0..k).map(|column| (column / group) as u32).collect());
            let groups: Vec<u8> = groups.into_iter().flat_map(u32::to_le_bytes).collect();
            tensors.push(StateTensor::new(name("g_idx"), Dtype::I32, &[k], groups));
        }
        Ok(tensors)
    }
}

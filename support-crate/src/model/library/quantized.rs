//! Quantized matrices in a library's tensors, for the library's own operations.
//!
//! They stay packed. What a product needs in full is made for that product, and forgotten after it.

use super::Operations;
use crate::error::{Error, Result};
use crate::model::Precision;
use crate::model::decoder::QuantStateBytes;
use crate::quant::{Absmax, FourBit, Int8Rows, NestedAbsmax, Quantized4Bit};

/// A matrix (n, k) in blocks of 4-bit numbers that run over its rows.
#[derive(Debug)]
pub(in crate::model) struct FourBitTensors<T> {
    /// Two numbers a byte, the last block filled up: (blocks * blocksize / 2), uint8.
    pub packed: T,
    /// (blocks, 1), float32
    pub absmax: T,
    /// The two numbers of each byte, as parts of `absmax`: (256, 2), float32. A look-up by bytes gives both in
    /// their order; one by half bytes would be two, to be interleaved.
    pub pairs: T,
    pub blocks: usize,
    pub blocksize: usize,
    pub n: usize,
    pub k: usize,
    /// What else a checkpoint says of it. Scales that are quantized themselves are unpacked to be multiplied with; as
    /// they were, they are kept in main memory.
    quant_type: FourBit,
    dtype: Precision,
    nested: Option<NestedAbsmax>,
}

/// A matrix (n, k) of 8-bit numbers with a scale for each row.
#[derive(Debug)]
pub(in crate::model) struct Int8Tensors<T> {
    /// The numbers, plus 128, because candle has no int8: (n, k), uint8.
    pub shifted: T,
    /// (1, n), float32
    pub scb: T,
    /// Columns in which any input reaches this are multiplied as they are; 0 for none.
    pub threshold: f32,
    pub k: usize,
}

/// What is added to int8 to be stored without a sign.
pub(in crate::model) const SHIFT: u8 = 128;

impl<T> FourBitTensors<T> {
    /// # Errors
    /// No room on the device.
    pub fn new(library: &impl Operations<Tensor = T>, quantized: &Quantized4Bit) -> Result<Self> {
        let &[n, k] = quantized.shape() else {
            return Err(Error::input(format!("4-bit weights of the shape {:?}, not a matrix", quantized.shape())));
        };
        let (absmax, blocksize) = (quantized.absmax().dequantize(), quantized.blocksize());
        let blocks = absmax.len();
        let mut packed = quantized.packed().to_vec();
        packed.resize(blocks * blocksize / 2, 0);
        let code = quantized.quant_type().codebook();
        let pairs: Vec<f32> =
            code.iter().flat_map(|&first| code.iter().flat_map(move |&second| [first, second])).collect();
        let nested = if let Absmax::Nested(nested) = quantized.absmax() { Some(nested.clone()) } else { None };
        Ok(Self {
            packed: library.bytes(&packed, &[packed.len()])?,
            absmax: library.float32(&absmax, &[blocks, 1])?,
            pairs: library.float32(&pairs, &[256, 2])?,
            blocks,
            blocksize,
            n,
            k,
            quant_type: quantized.quant_type(),
            dtype: quantized.dtype(),
            nested,
        })
    }

    /// Those of scales, and of the numbers that bytes stand for.
    pub fn quant_state_bytes(&self) -> QuantStateBytes {
        let unread = self.nested.clone().map_or(0, |nested| Absmax::Nested(nested).size_in_bytes());
        QuantStateBytes { all: (self.blocks + 2 * 256) * size_of::<f32>() + unread, unread }
    }

    /// Read back, to be saved.
    ///
    /// # Errors
    /// What the library reports.
    pub fn quantized(&self, library: &impl Operations<Tensor = T>) -> Result<Quantized4Bit> {
        let Self { blocksize, n, k, quant_type, dtype, .. } = *self;
        let mut packed = library.bytes_of(&self.packed)?;
        packed.truncate((n * k).div_ceil(2));
        let absmax = match &self.nested {
            Some(nested) => Absmax::Nested(nested.clone()),
            None => Absmax::Float32(library.values(&self.absmax)?),
        };
        Quantized4Bit::new(quant_type, blocksize, &[n, k], dtype, packed, absmax)
    }
}

impl<T> Int8Tensors<T> {
    /// # Errors
    /// No room on the device.
    pub fn new(library: &impl Operations<Tensor = T>, rows: &Int8Rows, threshold: f32) -> Result<Self> {
        let (n, k) = (rows.rows(), rows.columns());
        let shifted: Vec<u8> = rows.values().iter().map(|&value| value.cast_unsigned() ^ SHIFT).collect();
        let (shifted, scb) = (library.bytes(&shifted, &[n, k])?, library.float32(rows.scb(), &[1, n])?);
        Ok(Self { shifted, scb, threshold, k })
    }

    /// Read back, to be saved.
    ///
    /// # Errors
    /// What the library reports.
    pub fn rows(&self, library: &impl Operations<Tensor = T>) -> Result<Int8Rows> {
        let values = library.bytes_of(&self.shifted)?.into_iter().map(|byte| (byte ^ SHIFT).cast_signed()).collect();
        Int8Rows::new(values, library.values(&self.scb)?, self.k)
    }
}

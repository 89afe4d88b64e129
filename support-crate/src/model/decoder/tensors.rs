//! Quantized matrices in a library's tensors, for the library's own operations.
//!
//! They stay packed. What a product needs in full is made for that product, and forgotten after it.

use super::parts::Memory;
use crate::error::{Error, Result};
use crate::model::Precision;
use crate::model::weights::Slot;
use crate::quant::{Int8Rows, Quantized4Bit};

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
    pub n: usize,
    pub k: usize,
}

/// What is added to int8 to be stored without a sign.
pub(in crate::model) const SHIFT: u8 = 128;

impl<T> FourBitTensors<T> {
    /// # Errors
    /// No room on the device.
    pub fn new(memory: &impl Memory<Tensor = T>, quantized: &Quantized4Bit) -> Result<Self> {
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
        Ok(Self {
            packed: memory.bytes(&packed, &[packed.len()])?,
            absmax: float32(memory, &absmax, &[blocks, 1])?,
            pairs: float32(memory, &pairs, &[256, 2])?,
            blocks,
            blocksize,
            n,
            k,
        })
    }

    /// Bytes of scales and of the numbers that bytes stand for.
    pub fn quant_state_bytes(&self) -> usize {
        (self.blocks + 2 * 256) * size_of::<f32>()
    }
}

impl<T> Int8Tensors<T> {
    /// # Errors
    /// No room on the device.
    pub fn new(memory: &impl Memory<Tensor = T>, rows: &Int8Rows, threshold: f32) -> Result<Self> {
        let (n, k) = (rows.rows(), rows.columns());
        let shifted: Vec<u8> = rows.values().iter().map(|&value| value.cast_unsigned() ^ SHIFT).collect();
        let (shifted, scb) = (memory.bytes(&shifted, &[n, k])?, float32(memory, rows.scb(), &[1, n])?);
        Ok(Self { shifted, scb, threshold, n, k })
    }
}

/// Numbers that are float32 on the device, whatever is computed in.
fn float32<M: Memory>(memory: &M, values: &[f32], shape: &[usize]) -> Result<M::Tensor> {
    memory.tensor(shape, Precision::Float32, &mut |slot| {
        if let Slot::Float32(slot) = slot {
            slot.copy_from_slice(values);
        }
        Ok(())
    })
}

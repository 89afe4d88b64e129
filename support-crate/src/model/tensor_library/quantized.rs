//! Quantized matrices in a library's tensors, for the library's own operations.
//!
//! They stay packed. What a product needs in full is made for that product, and forgotten after it.

use quantlab_kernels::Packed4Bit;

use super::{FourBitTensors, Int8Tensors, Operations};
use crate::error::{Error, Result};
use crate::model::quantized::{Operands, QuantizedWeight, StateBytes};
use crate::model::weights::StateTensor;
use crate::quant::Int8Rows;

/// A quantized matrix whose codes are in a tensor.
#[derive(Debug)]
pub(in crate::model) struct QuantizedTensors<T> {
    pub tensors: Tensors<T>,
    /// What else there is to save: all but the codes.
    rest: Box<dyn QuantizedWeight>,
}

/// The formats for which there are operations.
#[derive(Debug)]
pub(in crate::model) enum Tensors<T> {
    FourBit(FourBitTensors<T>),
    Int8(Int8Tensors<T>),
}

/// What is added to int8 numbers so that they can be stored unsigned.
pub(in crate::model) const SHIFT: u8 = 128;

impl<T> QuantizedTensors<T> {
    /// Moves the codes to the device; the scales go there too, and stay in main memory to be saved.
    ///
    /// # Errors
    /// No room on the device; a format that only kernels compute.
    pub fn new(
        library: &impl Operations<Tensor = T>,
        mut weight: Box<dyn QuantizedWeight>,
    ) -> Result<(Self, StateBytes)> {
        let shape = weight.shape();
        let (tensors, on_device) = match weight.operands() {
            Some(Operands::FourBit(matrix)) => {
                let tensors = FourBitTensors::new(library, matrix, shape)?;
                let numbers = tensors.blocks * (1 + usize::from(tensors.minimum.is_some())) + 2 * 256;
                let columns = if tensors.columns.is_some() { shape[1] * size_of::<u64>() } else { 0 };
                (Tensors::FourBit(tensors), numbers * size_of::<f32>() + columns)
            }
            Some(Operands::Int8(rows, threshold)) => {
                (Tensors::Int8(Int8Tensors::new(library, rows, threshold)?), size_of_val(rows.scb()))
            }
            None => return Err(Error::system("the format is computed only by this library's own kernels")),
        };
        weight.forget_codes();
        let unread = weight.state_bytes().all;
        Ok((Self { tensors, rest: weight }, StateBytes { all: on_device + unread, unread }))
    }

    /// The tensors as a checkpoint has them; the codes are read back when they are written.
    ///
    /// # Errors
    /// A format that no checkpoint has.
    pub fn state_dict<'a>(
        &'a self,
        library: &'a impl Operations<Tensor = T>,
        module: &str,
    ) -> Result<Vec<StateTensor<'a>>> {
        let mut tensors = self.rest.state_dict(module)?;
        let bytes = self.rest.code_bytes();
        if let Some(codes) = tensors.first_mut() {
            codes.bytes = match &self.tensors {
                Tensors::FourBit(matrix) => Box::new(move || {
                    let mut packed = library.bytes_of(&matrix.packed)?;
                    packed.truncate(bytes);
                    Ok(self.rest.saved_codes(packed).into())
                }),
                Tensors::Int8(matrix) => {
                    Box::new(|| Ok(library.bytes_of(&matrix.shifted)?.into_iter().map(|byte| byte ^ SHIFT).collect()))
                }
            };
        }
        Ok(tensors)
    }
}

impl<T> FourBitTensors<T> {
    /// # Errors
    /// No room on the device.
    pub fn new(library: &impl Operations<Tensor = T>, matrix: Packed4Bit<'_>, [n, k]: [usize; 2]) -> Result<Self> {
        let Packed4Bit { packed, absmax, minimum, code, blocksize, columns, .. } = matrix;
        let blocks = absmax.len();
        let mut packed = packed.to_vec();
        packed.resize(blocks * blocksize / 2, 0);
        let pairs: Vec<f32> =
            code.iter().flat_map(|&first| code.iter().flat_map(move |&second| [first, second])).collect();
        Ok(Self {
            packed: library.bytes(&packed, &[packed.len()])?,
            absmax: library.float32(absmax, &[blocks, 1])?,
            minimum: minimum.map(|minimum| library.float32(minimum, &[blocks, 1])).transpose()?,
            pairs: library.float32(&pairs, &[256, 2])?,
            columns: columns.map(|columns| library.indices(columns)).transpose()?,
            blocks,
            blocksize,
            n,
            k,
        })
    }
}

impl<T> Int8Tensors<T> {
    /// # Errors
    /// No room on the device.
    pub fn new(library: &impl Operations<Tensor = T>, rows: &Int8Rows, threshold: f32) -> Result<Self> {
        let (n, k) = (rows.rows(), rows.columns());
        let shifted: Vec<u8> = rows.values().iter().map(|&value| value.cast_unsigned() ^ SHIFT).collect();
        let (shifted, scb) = (library.bytes(&shifted, &[n, k])?, library.float32(rows.scb(), &[1, n])?);
        Ok(Self { shifted, scb, threshold })
    }
}

//! A decoder's tensors as transformers saves them.

use half::{bf16, f16};
use safetensors::Dtype;

use super::fused::InMemory;
use super::library::Operations;
use super::parts::{HEAD, Linear, Norm, POSITION_EMBEDDING};
use super::stored::Stored;
use super::{Decoder, checkpoint};
use crate::error::{Error, Result};
use crate::model::cpu::Numbers;
use crate::model::weights::StateTensor;
use crate::model::{Architecture, Precision};

impl<B: Operations> Decoder<B>
where
    B::Tensor: InMemory,
{
    /// Every tensor, once: a head that is the token embedding is not one of its own.
    ///
    /// # Errors
    /// What the backend reports.
    pub(super) fn state_dict(&self) -> Result<Vec<StateTensor<'_>>> {
        let (parts, architecture) = (&self.parts, self.config.architecture);
        let own = |name: &str| format!("{}{name}", architecture.prefix());
        let mut tensors = vec![self.matrix(own(architecture.token_embedding()), &parts.token_embedding, false)];
        if let Some(embedding) = &parts.position_embedding {
            tensors.push(self.matrix(own(POSITION_EMBEDDING), embedding, false));
        }
        let norms = parts.blocks.iter().flat_map(|block| block.norms()).chain([&parts.final_norm]);
        for Norm { name, scale, shift } in norms {
            tensors.push(self.vector(format!("{name}.weight"), scale)?);
            if let Some(shift) = shift {
                tensors.push(self.vector(format!("{name}.bias"), shift)?);
            }
        }
        for Linear { name, weight, bias } in parts.blocks.iter().flat_map(|block| block.linears()) {
            // GPT-2 stores (in, out), unless bitsandbytes' layer has taken the place of its own.
            tensors.extend(self.stored(name, weight, architecture == Architecture::Gpt2)?);
            if let Some(bias) = bias {
                tensors.push(self.vector(format!("{name}.bias"), bias)?);
            }
        }
        if let Some(head) = &parts.head {
            tensors.extend(self.stored(HEAD, head, false)?);
        }
        Ok(tensors)
    }

    fn stored<'a>(
        &'a self,
        module: &str,
        stored: &'a Stored<B::Tensor>,
        transposed: bool,
    ) -> Result<Vec<StateTensor<'a>>> {
        Ok(match stored {
            Stored::Full(tensor) => vec![self.matrix(format!("{module}.weight"), tensor, transposed)],
            Stored::FourBit(matrix) => checkpoint::four_bit_tensors(module, matrix.quantized()),
            Stored::Int8(matrix) => checkpoint::int8_tensors(module, matrix.rows()),
            Stored::FourBitTensors(_) | Stored::Int8Tensors(_) => {
                return Err(Error::input(format!("layer `{module}` is quantized in a form that only computes"))
                    .hint("load the model on the CPU with `Backend::Candle` or `Backend::Tch`, and save that"));
            }
        })
    }

    /// A matrix in the precision of the model, the other way round if `transposed`.
    fn matrix<'a>(&'a self, name: String, tensor: &'a B::Tensor, transposed: bool) -> StateTensor<'a> {
        let (mut shape, dtype) = (B::shape(tensor), self.info.dtype);
        let columns = transposed.then(|| shape[1]);
        if transposed {
            shape.reverse();
        }
        let bytes = move || {
            if !self.info.device.is_cpu() {
                return Ok(bytes_as(dtype, &self.backend.values(tensor)?, columns).into());
            }
            let bytes = match tensor.numbers() {
                Numbers::Float32(values) => bytes_of(values, columns, f32::to_le_bytes),
                Numbers::BFloat16(values) => bytes_of(values, columns, bf16::to_le_bytes),
            };
            Ok(bytes.into())
        };
        StateTensor { name, dtype: to_safetensors(dtype), shape, bytes: Box::new(bytes) }
    }

    /// A vector, which on a CPU is kept in float32: in the precision of the model if that changes no number.
    fn vector(&self, name: String, tensor: &B::Tensor) -> Result<StateTensor<'_>> {
        let values = self.backend.values(tensor)?;
        let is_exact = self.info.dtype != Precision::BFloat16
            || values.iter().all(|&value| bf16::from_f32(value).to_f32() == value);
        let dtype = if is_exact { self.info.dtype } else { Precision::Float32 };
        Ok(StateTensor::new(name, to_safetensors(dtype), &[values.len()], bytes_as(dtype, &values, None)))
    }
}

fn to_safetensors(dtype: Precision) -> Dtype {
    match dtype {
        Precision::Float32 => Dtype::F32,
        Precision::BFloat16 => Dtype::BF16,
        Precision::Float16 => Dtype::F16,
    }
}

fn bytes_as(dtype: Precision, values: &[f32], columns: Option<usize>) -> Vec<u8> {
    match dtype {
        Precision::Float32 => bytes_of(values, columns, f32::to_le_bytes),
        Precision::BFloat16 => bytes_of(values, columns, |value| bf16::from_f32(value).to_le_bytes()),
        Precision::Float16 => bytes_of(values, columns, |value| f16::from_f32(value).to_le_bytes()),
    }
}

/// The numbers one after the other, or column after column of a matrix of so many.
fn bytes_of<T: Copy, const N: usize>(values: &[T], columns: Option<usize>, to_bytes: fn(T) -> [u8; N]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(N * values.len());
    match columns {
        None => bytes.extend(values.iter().flat_map(|&value| to_bytes(value))),
        Some(columns) => {
            let in_columns = (0..columns).flat_map(|column| values[column..].iter().step_by(columns));
            bytes.extend(in_columns.flat_map(|&value| to_bytes(value)));
        }
    }
    bytes
}

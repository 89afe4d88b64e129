//! A decoder's tensors as transformers saves them.

use half::{bf16, f16};

use super::{Decoder, HEAD, Linear, Matrix, Names, Norm, Store};
use crate::error::{Error, Result};
use crate::model::Precision;
use crate::model::engine_model::{PlainTensor, rows_of};
use crate::model::weights::StateTensor;

impl<S: Store> Decoder<S> {
    /// Every tensor, once: a head that is the token embedding is not one of its own.
    ///
    /// # Errors
    /// What the engine reports.
    pub(super) fn state_dict(&self) -> Result<Vec<StateTensor<'_>>> {
        let (parts, names) = (&self.parts, Names::of(self.config.architecture));
        let own = |name: &str| format!("{}{name}.weight", names.prefix);
        let (v, c) = (self.config.vocab_size, self.config.hidden_size);
        let mut tensors = vec![self.full(own(names.token_embedding), &parts.token_embedding, [v, c], false)];
        if let Some(embedding) = &parts.position_embedding {
            tensors.push(self.full(own(names.position_embedding), embedding, [self.config.context_len, c], false));
        }
        let norms = parts.blocks.iter().flat_map(|block| block.norms()).chain([&parts.final_norm]);
        for Norm { name, scale, shift, .. } in norms {
            tensors.push(self.vector(format!("{name}.weight"), scale)?);
            if let Some(shift) = shift {
                tensors.push(self.vector(format!("{name}.bias"), shift)?);
            }
        }
        for Linear { name, shape, weight, bias } in parts.blocks.iter().flat_map(|block| block.linears()) {
            // Transposed as in the family, unless bitsandbytes' layer has taken the place of the family's own.
            tensors.extend(self.matrix(name, weight, *shape, names.transposed)?);
            if let Some(bias) = bias {
                tensors.push(self.vector(format!("{name}.bias"), bias)?);
            }
        }
        if let Some(head) = &parts.head {
            tensors.extend(self.matrix(HEAD, head, [v, c], false)?);
        }
        Ok(tensors)
    }

    /// As [`state_dict`](Self::state_dict), in full precision, and matrices as (rows, columns) whatever the family.
    ///
    /// # Errors
    /// As there; a matrix that is quantized.
    pub fn tensors_in_full(&self) -> Result<Vec<PlainTensor<'_>>> {
        let (parts, names) = (&self.parts, Names::of(self.config.architecture));
        let (v, c) = (self.config.vocab_size, self.config.hidden_size);
        let own = |name: &str| format!("{}{name}.weight", names.prefix);
        let mut tensors = vec![self.matrix_in_full(own(names.token_embedding), &parts.token_embedding, [v, c])];
        if let Some(embedding) = &parts.position_embedding {
            let shape = [self.config.context_len, c];
            tensors.push(self.matrix_in_full(own(names.position_embedding), embedding, shape));
        }
        for block in &parts.blocks {
            block.norms().for_each(|norm| tensors.extend(self.norm_in_full(norm)));
            for Linear { name, shape, weight, bias } in block.linears() {
                tensors.push(self.matrix_in_full(format!("{name}.weight"), unquantized(name, weight)?, *shape));
                tensors.extend(bias.as_ref().map(|bias| self.vector_in_full(format!("{name}.bias"), bias, shape[0])));
            }
        }
        tensors.extend(self.norm_in_full(&parts.final_norm));
        if let Some(head) = &parts.head {
            tensors.push(self.matrix_in_full(format!("{HEAD}.weight"), unquantized(HEAD, head)?, [v, c]));
        }
        Ok(tensors)
    }

    fn matrix_in_full<'a>(&'a self, name: String, tensor: &'a S::Tensor, shape: [usize; 2]) -> PlainTensor<'a> {
        PlainTensor { name, shape: shape.to_vec(), open: Box::new(move || self.store.matrix_rows(tensor, shape[1])) }
    }

    fn norm_in_full<'a>(&'a self, norm: &'a Norm<S>) -> impl Iterator<Item = PlainTensor<'a>> {
        let Norm { name, width, scale, shift } = norm;
        let shift = shift.as_ref().map(|shift| self.vector_in_full(format!("{name}.bias"), shift, *width));
        [self.vector_in_full(format!("{name}.weight"), scale, *width)].into_iter().chain(shift)
    }

    fn vector_in_full<'a>(&'a self, name: String, vector: &'a S::Vector, len: usize) -> PlainTensor<'a> {
        let open = Box::new(move || self.store.vector_values(vector).map(|values| rows_of(values, 1)));
        PlainTensor { name, shape: vec![len], open }
    }

    fn matrix<'a>(
        &'a self,
        module: &str,
        matrix: &'a Matrix<S>,
        shape: [usize; 2],
        transposed: bool,
    ) -> Result<Vec<StateTensor<'a>>> {
        Ok(match matrix {
            Matrix::Full(tensor) => vec![self.full(format!("{module}.weight"), tensor, shape, transposed)],
            Matrix::Quantized(matrix) => self.store.state_dict(matrix, module)?,
        })
    }

    /// A matrix (rows, columns) in the precision of the model, the other way round if `transposed`.
    fn full<'a>(&'a self, name: String, tensor: &'a S::Tensor, shape: [usize; 2], transposed: bool) -> StateTensor<'a> {
        let dtype = self.info.dtype;
        let columns = transposed.then_some(shape[1]);
        let shape = if transposed { vec![shape[1], shape[0]] } else { shape.to_vec() };
        let bytes = move || Ok(bytes_as(dtype, &self.store.matrix_values(tensor)?, columns).into());
        StateTensor { name, dtype: dtype.to_safetensors(), shape, bytes: Box::new(bytes) }
    }

    /// A vector, which is kept in float32 on a CPU: saved in the precision of the model if that changes no number.
    fn vector(&self, name: String, vector: &S::Vector) -> Result<StateTensor<'_>> {
        let values = self.store.vector_values(vector)?;
        let is_exact = self.info.dtype != Precision::BFloat16
            || values.iter().all(|&value| bf16::from_f32(value).to_f32() == value);
        let dtype = if is_exact { self.info.dtype } else { Precision::Float32 };
        Ok(StateTensor::new(name, dtype.to_safetensors(), &[values.len()], bytes_as(dtype, &values, None)))
    }
}

fn unquantized<'a, S: Store>(module: &str, matrix: &'a Matrix<S>) -> Result<&'a S::Tensor> {
    match matrix {
        Matrix::Full(tensor) => Ok(tensor),
        Matrix::Quantized(_) => Err(Error::input(format!("layer `{module}` is quantized already"))
            .hint("load the model in full precision: without `quantization`, a GGUF file with `dequantize: true`")),
    }
}

fn bytes_as(dtype: Precision, values: &[f32], columns: Option<usize>) -> Vec<u8> {
    match dtype {
        Precision::Float32 => bytes_of(values, columns, f32::to_le_bytes),
        Precision::BFloat16 => bytes_of(values, columns, |value| bf16::from_f32(value).to_le_bytes()),
        Precision::Float16 => bytes_of(values, columns, |value| f16::from_f32(value).to_le_bytes()),
    }
}

/// The numbers one after the other, or column by column for a matrix with so many columns.
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

//! Linear layers with quantized weights over libtorch's tensors, as `bitsandbytes.nn` has them.
//!
//! On the CPU, this library's kernels compute: inputs are copied out of their tensors, and outputs into new ones. On a
//! GPU, libtorch's operations do: the weights stay packed there, and are dequantized for each product. CUDA: not
//! measured.

mod four_bit;
mod int8;
#[cfg(test)]
mod tests;

use std::fmt;

use quantlab_kernels::{Epilogue, Matrix, Weights, matmul, thread_scope};
use tch::{Device as TorchDevice, Kind, Tensor};

use super::Precision;
use super::kernels::check_isa;
use super::library::{Operations, Torch, TorchTensor, kind, numbers_of, precision};
use crate::error::{Context, Error, Result};

pub use four_bit::Linear4bit;
pub use int8::Linear8bitLt;

/// What layers of every format have.
struct Layer {
    in_features: usize,
    out_features: usize,
    /// (out_features), float32, where the layer is.
    bias: Option<TorchTensor>,
    device: TorchDevice,
    /// The format that the weights had.
    dtype: Precision,
}

impl Layer {
    /// The layer of `weight` (out_features, in_features), and the weights in main memory, in float32.
    ///
    /// # Errors
    /// A `weight` that is no matrix of numbers, a `bias` that is no vector of as many as it has rows.
    fn new(weight: &Tensor, bias: Option<&Tensor>) -> Result<(Self, Vec<f32>)> {
        let dtype = dtype_of("weight", weight)?;
        let &[out_features, in_features] = sizes(weight).as_slice() else {
            return Err(Error::input(format!("`weight` is of shape {:?}, not a matrix", weight.size()))
                .hint("(out_features, in_features), as `torch.nn.Linear` has it"));
        };
        let device = weight.device();
        // A device that cannot be computed on is an error now, not at the first input.
        Torch::on(device, dtype)?;
        let bias = bias.map(|bias| check_bias(bias, out_features, device)).transpose()?;
        let weight = numbers(weight).context(|| "`weight`")?;
        Ok((Self { in_features, out_features, bias, device, dtype }, weight))
    }

    fn bias(&self) -> Option<&Tensor> {
        self.bias.as_ref().map(|bias| &bias.0)
    }

    /// A copy: what is written to a shallow clone of the tensor itself, another thread could be reading.
    fn copy_of_bias(&self) -> Result<Option<Tensor>> {
        Ok(self.bias().map(|bias| tch::no_grad(|| bias.f_detach_copy())).transpose()?)
    }

    fn bias_bytes(&self) -> usize {
        self.bias().map_or(0, |bias| size_of::<f32>() * bias.numel())
    }

    /// The product of `input` (.., in_features) with weights in main memory: (.., out_features).
    fn with_kernels(&self, input: &Tensor, weights: &dyn Weights) -> Result<Tensor> {
        let (kind, shape) = self.check(input)?;
        check_isa()?;
        let x = numbers(input).context(|| "`input`")?;
        let bias = self.bias().map(numbers).transpose()?;
        let mut out = vec![0.0; shape.iter().product()];
        let matrix = Matrix { weights, n: self.out_features, k: self.in_features };
        let epilogue = Epilogue { bias: bias.as_deref(), ..Epilogue::default() };
        matmul(&thread_scope(), &x, matrix, epilogue, &mut out);
        Ok(Torch::on(self.device, Precision::Float32)?.tensor(&out, &shape)?.0.f_to_kind(kind)?)
    }

    /// The same with weights in tensors: `product` makes (M, out_features) of (M, in_features) and the bias.
    fn with_operations(
        &self,
        input: &Tensor,
        product: impl FnOnce(&Torch, &TorchTensor, Option<&TorchTensor>) -> Result<TorchTensor>,
    ) -> Result<Tensor> {
        let (kind, shape) = self.check(input)?;
        let torch = Torch::on(self.device, precision(kind).unwrap_or(self.dtype))?;
        let rows = [-1, self.in_features as i64];
        let x = tch::no_grad(|| input.f_reshape(rows)).context(|| "`input`")?;
        let x = torch.compute(&x)?;
        let bias = self.bias().map(|bias| torch.compute(bias)).transpose()?;
        let out = product(&torch, &x, bias.as_ref())?;
        let shape: Vec<i64> = shape.iter().map(|&size| size as i64).collect();
        Ok(tch::no_grad(|| out.0.f_to_kind(kind)?.f_view(shape.as_slice()))?)
    }

    /// Weights in float32, row after row, as a tensor of their own format where the layer is.
    fn weight_of(&self, values: &[f32]) -> Result<Tensor> {
        let weight = Torch::on(self.device, self.dtype)?.numbers(values, &[self.out_features, self.in_features])?;
        Ok(weight.0.f_to_kind(kind(self.dtype))?)
    }

    /// The format of an input, and the shape of its output.
    fn check(&self, input: &Tensor) -> Result<(Kind, Vec<usize>)> {
        let dtype = dtype_of("input", input)?;
        let mut shape = sizes(input);
        match shape.last_mut() {
            Some(last) if *last == self.in_features => *last = self.out_features,
            _ => {
                return Err(Error::input(format!(
                    "`input` is of shape {:?}; its last dimension must be the layer's in_features, {}",
                    input.size(),
                    self.in_features
                )));
            }
        }
        if input.device() != self.device {
            return Err(Error::input(format!("`input` is on {:?}, the layer on {:?}", input.device(), self.device))
                .hint("move it there with `.to_device(..)`"));
        }
        Ok((kind(dtype), shape))
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>, name: &str, format: &str, nbytes: usize) -> fmt::Result {
        let Self { in_features, out_features, bias, device, .. } = self;
        let bias = bias.is_some();
        write!(f, "{name}(in_features={in_features}, out_features={out_features}, bias={bias}, {format}, ")?;
        write!(f, "{nbytes} bytes on {device:?})")
    }
}

fn sizes(tensor: &Tensor) -> Vec<usize> {
    tensor.size().iter().map(|&size| size as usize).collect()
}

/// The format of a tensor of numbers.
fn dtype_of(what: &str, tensor: &Tensor) -> Result<Precision> {
    if !tensor.defined() || tensor.numel() == 0 {
        let shape = if tensor.defined() { tensor.size() } else { Vec::new() };
        return Err(Error::input(format!("`{what}` is empty, of shape {shape:?}")));
    }
    let kind = tensor.f_kind()?;
    precision(kind).ok_or_else(|| {
        Error::input(format!("`{what}` is of dtype {kind:?}"))
            .hint("Float, BFloat16 or Half; convert it with `.to_kind(..)`")
    })
}

fn check_bias(bias: &Tensor, out_features: usize, device: TorchDevice) -> Result<TorchTensor> {
    dtype_of("bias", bias)?;
    if sizes(bias) != [out_features] {
        return Err(Error::input(format!("`bias` is of shape {:?} for {out_features} outputs", bias.size())));
    }
    // A copy, so that nobody writes to it.
    let copy = || bias.f_to_kind(Kind::Float)?.f_contiguous()?.f_to_device(device)?.f_detach_copy();
    Ok(TorchTensor(tch::no_grad(copy).context(|| "`bias`")?))
}

/// A copy of the numbers in float32, row by row.
fn numbers(tensor: &Tensor) -> Result<Vec<f32>> {
    // Of a sparse tensor there is no view.
    let float32 = tch::no_grad(|| tensor.f_to_kind(Kind::Float)?.f_contiguous()?.f_view([-1_i64]))?;
    numbers_of(&float32)
}

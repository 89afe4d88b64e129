//! Layers of 4 bits a weight.

use std::fmt;

use tch::Tensor;

use super::{Layer, dtype_of};
use crate::error::Result;
use crate::interrupt;
use crate::model::decoder::{FullPrecision, quantize_4bit};
use crate::model::kernels::FourBitMatrix;
use crate::model::library::{FourBitTensors, Operations, Torch, TorchTensor};
use crate::quant::{Absmax, FourBitOptions, Quantized4Bit, check_blocksize};

/// A linear layer with weights of 4 bits, NF4 or FP4, as `bitsandbytes.nn.Linear4bit`.
///
/// Weights are dequantized as they are multiplied, and everything is added up in float32. If inputs are bfloat16, the
/// CPU kernels round the dequantized weights to bfloat16 too, as bitsandbytes does if no `compute_dtype` is given.
/// Scales that are quantized themselves are unpacked once; bitsandbytes unpacks them for each product. On a GPU the
/// quantized weights are in its memory too, besides those that [`quant_state`](Self::quant_state) reads. CUDA: not measured.
///
/// Source: QLoRA (Dettmers et al. 2023, arXiv:2305.14314), section 3.
///
/// ```
/// use quantlab::model::Linear4bit;
/// use quantlab::quant::FourBitOptions;
/// use quantlab::tch::{Device, Kind, Tensor};
///
/// let weight = Tensor::randn([48, 128], (Kind::Float, Device::Cpu));
/// let layer = Linear4bit::from_float(&weight, None, FourBitOptions::default())?;
/// let output = layer.forward(&Tensor::randn([2, 5, 128], (Kind::BFloat16, Device::Cpu)))?;
/// assert_eq!((output.size(), output.kind()), (vec![2, 5, 48], Kind::BFloat16));
/// assert_eq!(layer.nbytes(), 48 * 128 / 2 + 48 * 128 / 64 * 4);
/// # Ok::<(), quantlab::error::Error>(())
/// ```
pub struct Linear4bit {
    layer: Layer,
    matrix: FourBitMatrix,
    /// The same, where kernels of the CPU cannot compute.
    tensors: Option<FourBitTensors<TorchTensor>>,
}

impl Linear4bit {
    /// Quantizes `weight`, (out_features, in_features) in float32, bfloat16 or float16; `bias` is (out_features).
    /// The layer is on the weight's device. Equal in every bit to what bitsandbytes makes of it on a CPU.
    ///
    /// # Errors
    /// A `weight` that is empty, of another dtype, or not a matrix; a weight that is NaN or infinite; a `bias`
    /// that does not fit; a block size that [`check_blocksize`] refuses.
    pub fn from_float(weight: &Tensor, bias: Option<&Tensor>, options: FourBitOptions) -> Result<Self> {
        check_blocksize(options.blocksize)?;
        let (layer, weight) = Layer::new(weight, bias)?;
        let shape = (layer.out_features, layer.in_features);
        let quantized = quantize_4bit(FullPrecision::InMemory(&weight), "weight", shape, options, layer.dtype)?;
        let matrix = FourBitMatrix::new(quantized, layer.dtype);
        let on_cpu = Self { layer, matrix, tensors: None };
        if on_cpu.layer.device == tch::Device::Cpu { Ok(on_cpu) } else { on_cpu.in_tensors() }
    }

    /// The same layer, computed with libtorch's operations.
    pub(super) fn in_tensors(self) -> Result<Self> {
        let torch = Torch::on(self.layer.device, self.layer.dtype)?;
        Ok(Self { tensors: Some(FourBitTensors::new(&torch, self.quant_state())?), ..self })
    }

    /// `input` (.., in_features) in float32, bfloat16 or float16 times the transposed weights, plus the bias:
    /// (.., out_features), in the input's dtype. No gradient is recorded.
    ///
    /// # Errors
    /// An `input` that is empty, of another dtype or last dimension, or on another device.
    pub fn forward(&self, input: &Tensor) -> Result<Tensor> {
        interrupt::check()?;
        match &self.tensors {
            None => self.layer.with_kernels(input, &self.matrix.view(dtype_of("input", input)?)),
            Some(weight) => self
                .layer
                .with_operations(input, |torch, x, bias| torch.linear(x, &torch.dequantize_4bit(weight)?, bias)),
        }
    }

    /// The weights again, (out_features, in_features), in the dtype and on the device of those that were quantized.
    ///
    /// # Errors
    /// No room for them.
    pub fn dequantize(&self) -> Result<Tensor> {
        self.layer.weight_of(&self.quant_state().dequantize::<f32>())
    }

    /// The codes ([`packed`](Quantized4Bit::packed)), the scales ([`absmax`](Quantized4Bit::absmax)), and how they
    /// are to be read.
    pub fn quant_state(&self) -> &Quantized4Bit {
        self.matrix.quantized()
    }

    /// A copy of the bias, (out_features) in float32.
    ///
    /// # Errors
    /// No room for it.
    pub fn bias(&self) -> Result<Option<Tensor>> {
        self.layer.copy_of_bias()
    }

    /// Numbers of an input.
    pub fn in_features(&self) -> usize {
        self.layer.in_features
    }

    /// Numbers of an output.
    pub fn out_features(&self) -> usize {
        self.layer.out_features
    }

    /// Bytes of codes, scales and bias.
    pub fn nbytes(&self) -> usize {
        self.quant_state().size_in_bytes() + self.layer.bias_bytes()
    }
}

/// One line: sizes, format, bytes.
impl fmt::Debug for Linear4bit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let format = format!("{}, blocksize={}", self.quant_state().quant_type(), self.quant_state().blocksize());
        let nested = matches!(self.quant_state().absmax(), Absmax::Nested(_));
        let format = if nested { format + ", double_quant" } else { format };
        self.layer.describe(f, "Linear4bit", &format, self.nbytes())
    }
}

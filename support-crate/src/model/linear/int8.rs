//! Layers of 8 bits a weight.

use std::fmt;

use tch::Tensor;

use super::Layer;
use crate::error::Result;
use crate::interrupt;
use crate::model::decoder::{FullPrecision, Int8Activations, quantize_int8};
use crate::model::kernels::Int8Matrix;
use crate::model::library::{Int8Tensors, Operations, Torch, TorchTensor};
use crate::quant::{Int8Rows, check_threshold};

/// A linear layer with weights of 8 bits that computes LLM.int8(), as `bitsandbytes.nn.Linear8bitLt` with
/// `has_fp16_weights=False`.
///
/// Inputs are rounded to 8 bits as they come, each token by its largest magnitude; products of bytes are exact.
/// Columns in which any token of a call reaches the threshold are multiplied as they are. On a GPU the quantized
/// weights are in its memory too, besides those that [`weight`](Self::weight) reads. CUDA: not measured.
///
/// Source: LLM.int8() (Dettmers et al. 2022, arXiv:2208.07339), section 3.
///
/// ```
/// use quantlab::model::Linear8bitLt;
/// use quantlab::tch::{Device, Kind, Tensor};
///
/// let weight = Tensor::randn([48, 128], (Kind::Float, Device::Cpu));
/// let layer = Linear8bitLt::from_float(&weight, None, 6.0)?;
/// let output = layer.forward(&Tensor::randn([2, 5, 128], (Kind::Float, Device::Cpu)))?;
/// assert_eq!(output.size(), [2, 5, 48]);
/// assert_eq!(layer.scb().len(), 48);
/// # Ok::<(), quantlab::error::Error>(())
/// ```
pub struct Linear8bitLt {
    layer: Layer,
    matrix: Int8Matrix,
    /// The same, where kernels of the CPU cannot compute.
    tensors: Option<Int8Tensors<TorchTensor>>,
    threshold: f32,
}

impl Linear8bitLt {
    /// Quantizes `weight`, (out_features, in_features) in float32, bfloat16 or float16, rounded to float16 first,
    /// as bitsandbytes does; `bias` is (out_features). The layer is on the weight's device.
    ///
    /// `threshold` (`llm_int8_threshold`, usually 6) is the magnitude from which an input is an outlier; with 0
    /// there are none, and inputs are not rounded to float16 first.
    ///
    /// # Errors
    /// A `weight` that is empty, of another dtype, or not a matrix; a weight that is NaN, or infinite in float16;
    /// rows of more than 65,793 weights; a `bias` that does not fit; a threshold that is negative or NaN.
    pub fn from_float(weight: &Tensor, bias: Option<&Tensor>, threshold: f32) -> Result<Self> {
        check_threshold(threshold)?;
        let (layer, weight) = Layer::new(weight, bias)?;
        let shape = (layer.out_features, layer.in_features);
        let rows = quantize_int8(FullPrecision::InMemory(&weight), "weight", shape)?;
        let matrix = Int8Matrix::new(rows, Int8Activations::Dynamic { threshold });
        let on_cpu = Self { layer, matrix, tensors: None, threshold };
        if on_cpu.layer.device == tch::Device::Cpu { Ok(on_cpu) } else { on_cpu.in_tensors() }
    }

    /// The same layer, computed with libtorch's operations.
    pub(super) fn in_tensors(self) -> Result<Self> {
        let torch = Torch::on(self.layer.device, self.layer.dtype)?;
        Ok(Self { tensors: Some(Int8Tensors::new(&torch, self.weight(), self.threshold)?), ..self })
    }

    /// `input` (.., in_features) in float32, bfloat16 or float16 times the transposed weights, plus the bias:
    /// (.., out_features), in the input's dtype. No gradient is recorded.
    ///
    /// # Errors
    /// An `input` that is empty, of another dtype or last dimension, or on another device.
    pub fn forward(&self, input: &Tensor) -> Result<Tensor> {
        interrupt::check()?;
        match &self.tensors {
            None => self.layer.with_kernels(input, &self.matrix),
            Some(weight) => self.layer.with_operations(input, |torch, x, bias| torch.linear_int8(x, weight, bias)),
        }
    }

    /// The weights again, (out_features, in_features), in the dtype and on the device of those that were quantized.
    ///
    /// # Errors
    /// No room for them.
    pub fn dequantize(&self) -> Result<Tensor> {
        self.layer.weight_of(&self.weight().dequantize::<f32>())
    }

    /// The int8 weights and their scales: `CB` and `SCB` in bitsandbytes.
    pub fn weight(&self) -> &Int8Rows {
        self.matrix.rows()
    }

    /// `SCB`: the largest magnitude of each row of weights; a weight is `value * scb / 127`.
    pub fn scb(&self) -> &[f32] {
        self.weight().scb()
    }

    /// The magnitude from which an input is an outlier; 0 for no outliers.
    pub fn threshold(&self) -> f32 {
        self.threshold
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

    /// Bytes of weights, scales and bias.
    pub fn nbytes(&self) -> usize {
        self.weight().size_in_bytes() + self.layer.bias_bytes()
    }
}

/// One line: sizes, format, bytes.
impl fmt::Debug for Linear8bitLt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.layer.describe(f, "Linear8bitLt", &format!("int8, threshold={}", self.threshold), self.nbytes())
    }
}

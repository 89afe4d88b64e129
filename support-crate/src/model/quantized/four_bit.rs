//! Blocks of 4-bit weights, as transformers and bitsandbytes have them.
//!
//! Source: `QuantState.as_dict` and `from_dict` in bitsandbytes `functional.py`.

use quantlab_kernels::{Compute, Packed4Bit, Product, Weights as KernelWeights};
use safetensors::Dtype;
use serde::Deserialize;

use super::parts::{FullPrecision, in_parts};
use super::{Operands, QuantizedWeight, StateBytes, float32_bytes, floats};
use crate::error::{Context, Error, Result};
use crate::model::weights::StateTensor;
use crate::model::{Precision, Weights};
use crate::quant::{
    Absmax, FourBit, FourBitOptions, NESTED_BLOCKSIZE, NestedAbsmax, Quantized4Bit, check_blocksize,
    quantize_4bit_blocks,
};

/// A matrix of NF4 or FP4.
#[derive(Debug)]
pub(super) struct FourBitMatrix {
    quantized: Quantized4Bit,
    /// The scales in float32, if they are quantized themselves.
    unpacked: Vec<f32>,
    compute: Compute,
}

/// What products with 4-bit weights are computed in: anything other than float32 and bfloat16 becomes float32.
pub(super) fn compute(dtype: Precision) -> Compute {
    if dtype == Precision::BFloat16 { Compute::BFloat16 } else { Compute::Float32 }
}

impl FourBitMatrix {
    /// Scales that are quantized are unpacked, which takes half a bit for each weight, so that no kernel has to. They
    /// are also kept as they were, an eighth of a bit: the codes cannot be derived from the scales, and a file has the
    /// codes.
    fn new(quantized: Quantized4Bit, compute_dtype: Precision) -> Self {
        let unpacked = match quantized.absmax() {
            Absmax::Float32(_) => Vec::new(),
            Absmax::Nested(nested) => nested.dequantize(),
        };
        Self { quantized, unpacked, compute: compute(compute_dtype) }
    }

    /// Quantizes weights of full precision, to be multiplied in `compute_dtype`.
    ///
    /// # Errors
    /// A weight that is NaN or infinite, by output and input. The caller has checked the block size.
    pub fn quantize(weights: FullPrecision<'_>, options: FourBitOptions, compute_dtype: Precision) -> Result<Self> {
        let FourBitOptions { quant_type, blocksize, double_quant } = options;
        let (shape, dtype) = (weights.tensor.shape, weights.dtype);
        let (packed, absmax) = in_parts(weights, (2, blocksize), f32::is_finite, |numbers, packed, absmax| {
            quantize_4bit_blocks(quant_type, blocksize, numbers, packed, absmax)
        })?;
        let absmax =
            if double_quant { Absmax::Nested(NestedAbsmax::quantize(&absmax)?) } else { Absmax::Float32(absmax) };
        let quantized = Quantized4Bit::with_packed(quant_type, blocksize, shape, dtype, packed, absmax)?;
        Ok(Self::new(quantized, compute_dtype))
    }

    /// A layer of a checkpoint whose weight is called `name`.
    ///
    /// # Errors
    /// Tensors that are missing, or that contradict each other or the shape.
    pub fn read(weights: &Weights, name: &str, (n, k): (usize, usize), compute_dtype: Precision) -> Result<Self> {
        let state = quant_state(weights, name)?;
        let quant_type: FourBit = state.quant_type.parse()?;
        if state.shape != [n, k] {
            return Err(Error::format(format!("its quant state has shape {:?}, expected [{n}, {k}]", state.shape))
                .hint("do config.json and the weights belong to the same model?"));
        }
        check_blocksize(state.blocksize)?;
        let code = floats(weights, &format!("{name}.quant_map"), 16)?;
        if code != quant_type.codebook() {
            return Err(Error::format(format!("its `quant_map` is not that of {quant_type}")));
        }
        let packed = weights.bytes_to_stay(name, false, |byte| byte)?;
        let absmax = match state.nested_blocksize {
            None => Absmax::Float32(floats(weights, &format!("{name}.absmax"), (n * k).div_ceil(state.blocksize))?),
            Some(nested_blocksize) => nested(weights, name, nested_blocksize, &state)?,
        };
        let dtype: Precision = state.dtype.parse().context(|| "its quant state")?;
        let quantized = Quantized4Bit::with_packed(quant_type, state.blocksize, &[n, k], dtype, packed, absmax)?;
        Ok(Self::new(quantized, compute_dtype))
    }

    /// The scale of each block.
    fn absmax(&self) -> &[f32] {
        match self.quantized.absmax() {
            Absmax::Float32(absmax) => absmax,
            Absmax::Nested(_) => &self.unpacked,
        }
    }

    fn view(&self) -> Packed4Bit<'_> {
        Packed4Bit {
            packed: self.quantized.packed(),
            absmax: self.absmax(),
            minimum: None,
            code: self.quantized.quant_type().codebook(),
            blocksize: self.quantized.blocksize(),
            columns: None,
            compute: self.compute,
        }
    }
}

impl KernelWeights for FourBitMatrix {
    fn multiply(&self, product: Product<'_>) {
        self.view().multiply(product);
    }
}

impl QuantizedWeight for FourBitMatrix {
    fn shape(&self) -> [usize; 2] {
        let &[n, k] = self.quantized.shape() else { unreachable!("made of a matrix") };
        [n, k]
    }

    fn code_bytes(&self) -> usize {
        self.quantized.num_weights().div_ceil(2)
    }

    fn state_bytes(&self) -> StateBytes {
        let unread = match self.quantized.absmax() {
            Absmax::Float32(_) => 0,
            nested => nested.size_in_bytes(),
        };
        StateBytes { all: size_of_val(self.absmax()) + unread, unread }
    }

    fn operands(&self) -> Option<Operands<'_>> {
        Some(Operands::FourBit(self.view()))
    }

    fn forget_codes(&mut self) {
        self.quantized.forget_packed();
    }

    fn state_dict<'a>(&'a self, module: &str) -> Result<Vec<StateTensor<'a>>> {
        let quantized = &self.quantized;
        let (quant_type, state) = (quantized.quant_type(), quant_state_json(quantized).into_bytes());
        let name = format!("{module}.weight");
        let part =
            |part: &str, dtype, len, bytes: Vec<u8>| StateTensor::new(format!("{name}.{part}"), dtype, &[len], bytes);
        let mut tensors = vec![
            StateTensor::new(name.clone(), Dtype::U8, &[self.code_bytes(), 1], quantized.packed()),
            part("quant_map", Dtype::F32, 16, float32_bytes(quant_type.codebook())),
            part(&format!("quant_state.bitsandbytes__{quant_type}"), Dtype::U8, state.len(), state),
        ];
        match quantized.absmax() {
            Absmax::Float32(absmax) => {
                let bytes = || float32_bytes(absmax);
                tensors.push(StateTensor::later(format!("{name}.absmax"), Dtype::F32, &[absmax.len()], bytes));
            }
            Absmax::Nested(nested) => tensors.extend([
                part("absmax", Dtype::U8, nested.quantized().len(), nested.quantized().to_vec()),
                part("nested_absmax", Dtype::F32, nested.absmax().len(), float32_bytes(nested.absmax())),
                part("nested_quant_map", Dtype::F32, nested.code().len(), float32_bytes(nested.code())),
            ]),
        }
        Ok(tensors)
    }
}

/// The content of `quant_state.bitsandbytes__nf4` or `__fp4`.
#[derive(Deserialize)]
struct QuantState {
    quant_type: String,
    blocksize: usize,
    dtype: String,
    shape: Vec<usize>,
    nested_blocksize: Option<usize>,
    nested_dtype: Option<String>,
    nested_offset: Option<f32>,
}

fn quant_state(weights: &Weights, name: &str) -> Result<QuantState> {
    let names = ["nf4", "fp4"].map(|quant_type| format!("{name}.quant_state.bitsandbytes__{quant_type}"));
    let found = names.iter().find(|name| weights.contains(name));
    let Some(found) = found else {
        return Err(Error::format(format!("there is neither `{}` nor `{}`", names[0], names[1]))
            .hint("the checkpoint is damaged, or was not saved by bitsandbytes"));
    };
    serde_json::from_slice(&weights.bytes(found)?).context(|| format!("`{found}`"))
}

fn nested(weights: &Weights, name: &str, blocksize: usize, state: &QuantState) -> Result<Absmax> {
    if blocksize != NESTED_BLOCKSIZE {
        return Err(Error::format(format!("its `nested_blocksize` is {blocksize}, expected {}", NESTED_BLOCKSIZE)));
    }
    if let Some(dtype) = state.nested_dtype.as_deref().filter(|dtype| *dtype != "float32") {
        return Err(Error::format(format!("its `nested_dtype` is {dtype:?}, expected \"float32\"")));
    }
    let offset = state.nested_offset.ok_or_else(|| Error::format("its quant state has no `nested_offset`"))?;
    let quantized = weights.bytes(&format!("{name}.absmax"))?;
    let absmax = floats(weights, &format!("{name}.nested_absmax"), quantized.len().div_ceil(blocksize))?;
    let code = floats(weights, &format!("{name}.nested_quant_map"), 256)?;
    Ok(Absmax::Nested(NestedAbsmax::new(quantized, absmax, &code, offset)?))
}

/// As Python's `json.dumps` writes it, to the last space.
fn quant_state_json(quantized: &Quantized4Bit) -> String {
    let nested = match quantized.absmax() {
        Absmax::Float32(_) => String::new(),
        Absmax::Nested(nested) => format!(
            r#", "nested_blocksize": {NESTED_BLOCKSIZE}, "nested_dtype": "float32", "nested_offset": {}"#,
            python_float(nested.offset().into())
        ),
    };
    let (quant_type, blocksize) = (quantized.quant_type(), quantized.blocksize());
    let (dtype, shape) = (quantized.dtype(), quantized.shape());
    format!(
        r#"{{"quant_type": "{quant_type}", "blocksize": {blocksize}, "dtype": "{dtype}", "shape": {shape:?}{nested}}}"#
    )
}

/// Rust and Python write the same digits; Python's exponents have a sign, and two digits or more.
fn python_float(value: f64) -> String {
    let text = format!("{value:?}");
    match text.split_once('e').and_then(|(digits, exponent)| Some((digits, exponent.parse::<i32>().ok()?))) {
        Some((digits, exponent)) => format!("{digits}e{exponent:+03}"),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_written_as_python_writes_them() {
        for (value, expected) in [
            (f64::from(0.308_875_4_f32), "0.3088754117488861"),
            (1.0, "1.0"),
            (0.0001, "0.0001"),
            (0.00005, "5e-05"),
            (1.25e-7, "1.25e-07"),
            (-3e-120, "-3e-120"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
        ] {
            assert_eq!(python_float(value), expected);
        }
    }
}

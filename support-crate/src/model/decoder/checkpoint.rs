//! Layers as transformers and bitsandbytes save them.
//!
//! Source: `QuantState.as_dict` and `from_dict` in bitsandbytes `functional.py`; `Linear8bitLt` in
//! `nn/modules.py`.

use std::borrow::Cow;
use std::rc::Rc;

use safetensors::Dtype;
use serde::Deserialize;

use crate::buffer::Buffer;
use crate::error::{Context, Error, Result};
use crate::model::weights::{StateTensor, UnreadTensor};
use crate::model::{Precision, Weights};
use crate::quant::{Absmax, FourBit, Int8Rows, NESTED_BLOCKSIZE, NestedAbsmax, Quantized4Bit, check_blocksize};

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

/// A 4-bit layer whose weight is called `name`.
pub(super) fn four_bit(weights: &Weights, name: &str, (n, k): (usize, usize)) -> Result<Quantized4Bit> {
    let state = quant_state(weights, name)?;
    let quant_type: FourBit = state.quant_type.parse()?;
    if state.shape != [n, k] {
        return Err(Error::format(format!("its quant state is of shape {:?}, expected [{n}, {k}]", state.shape))
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
    Quantized4Bit::with_packed(quant_type, state.blocksize, &[n, k], dtype, packed, absmax)
}

fn quant_state(weights: &Weights, name: &str) -> Result<QuantState> {
    let names = ["nf4", "fp4"].map(|quant_type| format!("{name}.quant_state.bitsandbytes__{quant_type}"));
    let found = names.iter().find(|name| weights.contains(name));
    let Some(found) = found else {
        return Err(Error::format(format!("there is no `{}` and no `{}`", names[0], names[1]))
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

/// An 8-bit layer whose weight is called `name`.
pub(super) fn int8(weights: &Weights, name: &str, (n, k): (usize, usize)) -> Result<Int8Rows> {
    let module = name.strip_suffix(".weight").unwrap_or(name);
    let format_name = format!("{module}.weight_format");
    if weights.contains(&format_name) && weights.bytes(&format_name)?.iter().any(|&byte| byte != 0) {
        return Err(Error::format(format!("`{format_name}` is not 0: the weights are not row by row"))
            .hint("save the checkpoint with a newer version of bitsandbytes"));
    }
    weights.check(name, &[n, k])?;
    let scb_name = format!("{module}.SCB");
    if !weights.contains(&scb_name) {
        return Err(Error::format(format!("int8 weights without the scales of their rows, `{scb_name}`")));
    }
    let values = weights.bytes_to_stay(name, true, u8::cast_signed)?;
    Int8Rows::with_values(values, floats(weights, &scb_name, n)?, k)
}

fn floats(weights: &Weights, name: &str, len: usize) -> Result<Vec<f32>> {
    UnreadTensor { weights, name, shape: &[len], transposed: false }.read().map(Buffer::into_vec)
}

/// A 4-bit layer as it is saved: the same bytes.
pub(super) fn four_bit_tensors<'a>(module: &str, quantized: Cow<'a, Quantized4Bit>) -> Vec<StateTensor<'a>> {
    let (quant_type, state) = (quantized.quant_type(), quant_state_json(&quantized).into_bytes());
    let (packed_len, quantized) = (quantized.packed().len(), Rc::new(quantized));
    let later = |part: &str, dtype, shape: &[usize], bytes: fn(&Quantized4Bit) -> Vec<u8>| {
        let (name, quantized) = (format!("{module}.weight{part}"), Rc::clone(&quantized));
        StateTensor { name, dtype, shape: shape.to_vec(), bytes: Box::new(move || Ok(bytes(&quantized).into())) }
    };
    let now = |part: &str, dtype, len, bytes| StateTensor::new(format!("{module}.weight.{part}"), dtype, &[len], bytes);
    let mut tensors = vec![
        later("", Dtype::U8, &[packed_len, 1], |quantized| quantized.packed().to_vec()),
        now("quant_map", Dtype::F32, 16, float32_bytes(quant_type.codebook())),
        now(&format!("quant_state.bitsandbytes__{quant_type}"), Dtype::U8, state.len(), state),
    ];
    match quantized.absmax() {
        Absmax::Float32(absmax) => tensors.push(later(".absmax", Dtype::F32, &[absmax.len()], |quantized| {
            float32_bytes(&quantized.absmax().dequantize())
        })),
        Absmax::Nested(nested) => tensors.extend([
            now("absmax", Dtype::U8, nested.quantized().len(), nested.quantized().to_vec()),
            now("nested_absmax", Dtype::F32, nested.absmax().len(), float32_bytes(nested.absmax())),
            now("nested_quant_map", Dtype::F32, nested.code().len(), float32_bytes(nested.code())),
        ]),
    }
    tensors
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

/// An 8-bit layer as it is saved.
pub(super) fn int8_tensors<'a>(module: &str, rows: Cow<'a, Int8Rows>) -> Vec<StateTensor<'a>> {
    let now =
        |part: &str, dtype, shape: &[usize], bytes| StateTensor::new(format!("{module}.{part}"), dtype, shape, bytes);
    let scb = now("SCB", Dtype::F32, &[rows.rows()], float32_bytes(rows.scb()));
    // Row by row, the only layout that there still is.
    let format = now("weight_format", Dtype::U8, &[], vec![0]);
    let (name, shape) = (format!("{module}.weight"), vec![rows.rows(), rows.columns()]);
    let values = move || Ok(rows.values().iter().map(|&value| value.cast_unsigned()).collect());
    vec![StateTensor { name, dtype: Dtype::I8, shape, bytes: Box::new(values) }, scb, format]
}

fn float32_bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
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

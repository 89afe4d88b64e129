//! GPTQ, as AutoGPTQ, GPTQModel and transformers save it.
//!
//! A linear layer of k inputs and n outputs has `qweight` (k bits / 32, n), a stream of bits down each column; `qzeros`
//! (groups, n bits / 32), a stream along each row; `scales` (groups, n); and `g_idx` (k), the group of each input, which
//! `desc_act` sorted by activation.
//!
//! Source: `QuantLinear.pack` in AutoGPTQ `nn_modules/qlinear/qlinear_cuda.py`; for version 2,
//! `convert_gptq_v1_to_v2_format_module` in GPTQModel `utils/model.py`.

use safetensors::Dtype;
use serde::Deserialize;
use serde_json::Value;

use super::packed::{Codes, Values, from_stream};
use super::parts::transposed;
use super::{Layout, PackedLayer, Parts, group_size, keys};
use crate::error::{Error, Result};

/// Its `quant_method`.
pub(super) const METHOD: &str = "gptq";

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Gptq {
    bits: u32,
    group_size: Option<usize>,
    desc_act: bool,
    /// Whether zero points are stored less 1.
    zeros_less_one: bool,
    /// The ends of the names of the layers that are quantized, if not all are.
    only: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Keys {
    bits: u32,
    group_size: i64,
    #[serde(default)]
    desc_act: bool,
    checkpoint_format: Option<String>,
    format: Option<String>,
    #[serde(default)]
    is_marlin_format: bool,
    pack_dtype: Option<String>,
    dynamic: Option<Value>,
    modules_in_block_to_quantize: Option<Vec<Value>>,
}

impl Gptq {
    /// # Errors
    /// A value that is not understood.
    pub fn read(value: &Value) -> Result<Self> {
        let keys: Keys = keys(value)?;
        if ![2, 3, 4, 8].contains(&keys.bits) {
            return Err(Error::format(format!("`bits` is {}", keys.bits)).hint("GPTQ has 2, 3, 4 and 8"));
        }
        let format = keys.checkpoint_format.or(keys.format).unwrap_or_else(|| METHOD.to_owned());
        let zeros_less_one = match format.as_str() {
            "gptq" if !keys.is_marlin_format => true,
            "gptq_v2" => false,
            other => {
                let other = if keys.is_marlin_format { "marlin" } else { other };
                return Err(Error::format(format!("`checkpoint_format` is {other:?}"))
                    .hint("\"gptq\" and \"gptq_v2\" can be read; others are made for one kernel"));
            }
        };
        if let Some(dtype) = keys.pack_dtype.filter(|dtype| dtype != "int32") {
            return Err(Error::format(format!("`pack_dtype` is {dtype:?}")).hint("only \"int32\" can be read"));
        }
        if keys
            .dynamic
            .is_some_and(|dynamic| dynamic.as_object().is_none_or(|some| !some.is_empty()) && !dynamic.is_null())
        {
            return Err(Error::format("`dynamic` has settings for single layers, which cannot be read")
                .hint("quantize all layers in one way"));
        }
        let only = keys.modules_in_block_to_quantize.map(|lists| {
            let names = lists.iter().flat_map(|list| list.as_array().map_or(std::slice::from_ref(list), Vec::as_slice));
            names.filter_map(Value::as_str).map(str::to_owned).collect()
        });
        let group_size = group_size(keys.group_size)?;
        Ok(Self { bits: keys.bits, group_size, desc_act: keys.desc_act, zeros_less_one, only })
    }
}

impl Layout for Gptq {
    fn marker(&self) -> &'static str {
        "qweight"
    }

    fn leaves(&self, module: &str) -> bool {
        self.only.as_ref().is_some_and(|only| !only.iter().any(|name| module.ends_with(name)))
    }

    fn layer(&self, _: &str, [n, k]: [usize; 2], parts: &dyn Parts) -> Result<PackedLayer> {
        let (bits, in_word) = (self.bits, |numbers: usize| numbers * self.bits as usize);
        if !in_word(n).is_multiple_of(32) || !in_word(k).is_multiple_of(32) {
            return Err(Error::format(format!("{k} inputs and {n} outputs of {bits} bits do not fill words of 32")));
        }
        let group = self.group_size.unwrap_or(k);
        let (groups, words) = (k.div_ceil(group), in_word(n) / 32);
        let bytes = parts.get("qweight")?.bytes_of(&[Dtype::I32, Dtype::U32], &[in_word(k) / 32, n])?;
        let mut stored = parts.get("qzeros")?.words(&[groups, words])?;
        // Whole words were subtracted from, so that a zero point of 0 has borrowed from the next.
        let ones = match bits {
            2 if self.zeros_less_one => 0x5555_5555,
            4 if self.zeros_less_one => 0x1111_1111,
            8 if self.zeros_less_one => 0x0101_0101,
            _ => 0,
        };
        stored.iter_mut().for_each(|word| *word = word.wrapping_add(ones));
        // Those of 3 bits lie across words.
        let one_by_one = self.zeros_less_one && bits == 3;
        let mut zeros = Vec::with_capacity(groups * n);
        let mut codes = vec![0; n];
        for line in stored.chunks_exact(words) {
            from_stream(|index| line[index], bits, &mut codes);
            zeros.extend(codes.iter().map(|&code| f32::from(if one_by_one { (code + 1) & 7 } else { code })));
        }
        let scales = parts.get("scales")?.floats(&[&[groups, n]])?;
        let codes = (Codes::Columns { bytes, bits, n }, Values::Whole(bits));
        let layer = PackedLayer::new([n, k], codes, [1, group], transposed(&scales, n), transposed(&zeros, n))?;
        match parts.find("g_idx")? {
            Some(groups) => layer.with_groups(groups.words(&[k])?),
            None if self.desc_act => parts.get("g_idx").map(|_| layer),
            None => Ok(layer),
        }
    }

    fn groups(&self) -> Vec<Option<usize>> {
        if self.bits == 4 { vec![self.group_size] } else { Vec::new() }
    }
}

impl std::fmt::Display for Gptq {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "gptq of {} bits{}", self.bits, if self.desc_act { " in the order of activations" } else { "" })
    }
}

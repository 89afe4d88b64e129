//! compressed-tensors, as llm-compressor and vLLM have it.
//!
//! `config_groups` say which layers are quantized how. A layer in `pack-quantized` has `weight_packed` (n, k bits /
//! 32), streams of bits along the rows, `weight_scale` (n, groups), `weight_zero_point` (n bits / 32, groups) unless it
//! is symmetric, `weight_shape`, and `weight_g_idx` (k) where versions before 0.19 sorted columns; numbers are signed,
//! and stored with an offset. In `float-quantized` and `int-quantized`, `weight` has a byte for each number, even of 4
//! bits; in `nvfp4-pack-quantized` and `mxfp4-pack-quantized`, `weight_packed` (n, k / 2) has two E2M1 codes a byte,
//! the first in the lower half, for scales in E4M3 divided by `weight_global_scale`, or in E8M0.
//!
//! Source: `compressors/` of compressed-tensors 0.20; for `weight_g_idx`, `_process_quantization` in
//! `quantization/lifecycle/forward.py` of 0.9 to 0.14, `forward_helpers.py` there of 0.15 to 0.18.

use std::collections::BTreeMap;

use safetensors::Dtype;
use serde::Deserialize;
use serde_json::{Value, json};

use super::fp8::e4m3_codes;
use super::names::{Target, check_in_all};
use super::packed::{Codes, Values, from_stream};
use super::parts::transposed;
use super::{Layout, PackedLayer, Parts, group_size, keys};
use crate::error::{Context, Error, Result};
use crate::quant::{Head, QuantizationConfig, QuantizationMethod, e2m1};

/// Its `quant_method`.
pub(crate) const METHOD: &str = "compressed-tensors";

#[derive(Debug, Clone, PartialEq)]
pub(super) struct CompressedTensors {
    schemes: Vec<Scheme>,
    /// Layers that a group without weights leaves as they are.
    left: Vec<Target>,
    ignore: Vec<Target>,
}

/// How some layers are quantized.
#[derive(Debug, Clone, PartialEq)]
struct Scheme {
    targets: Vec<Target>,
    format: Format,
    bits: u32,
    symmetric: bool,
    strategy: Strategy,
    /// Whether inputs were to be quantized too, which changes what is computed, but not what weights are.
    inputs: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Packed,
    Int,
    Float,
    Nvfp4,
    Mxfp4,
}

const FORMATS: [(&str, Format, &[u32]); 5] = [
    ("pack-quantized", Format::Packed, &[2, 4, 8]),
    ("int-quantized", Format::Int, &[4, 8]),
    ("float-quantized", Format::Float, &[8]),
    ("nvfp4-pack-quantized", Format::Nvfp4, &[4]),
    ("mxfp4-pack-quantized", Format::Mxfp4, &[4]),
];

/// What shares a scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Strategy {
    Tensor,
    Channel,
    Group(usize),
    Block([usize; 2]),
}

#[derive(Deserialize)]
struct Keys {
    config_groups: BTreeMap<String, Group>,
    format: Option<String>,
    ignore: Option<Vec<String>>,
    quantization_status: Option<String>,
    sparsity_config: Option<Value>,
    transform_config: Option<Value>,
}

#[derive(Deserialize)]
struct Group {
    targets: Vec<String>,
    weights: Option<Weights>,
    input_activations: Option<Value>,
    format: Option<String>,
}

#[derive(Deserialize)]
struct Weights {
    num_bits: u32,
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(default = "super::yes")]
    symmetric: bool,
    strategy: Option<String>,
    group_size: Option<i64>,
    #[serde(default)]
    block_structure: Value,
}

impl CompressedTensors {
    /// # Errors
    /// A value that is not understood.
    pub fn read(value: &Value) -> Result<Self> {
        let keys: Keys = keys(value)?;
        check_in_all(keys.config_groups.values().flat_map(|group| &group.targets).chain(keys.ignore.iter().flatten()))?;
        // "frozen" are those whose scales do not change any more; where they are not stored so, a tensor is missing.
        let is_stored = |status: &String| ["compressed", "frozen"].contains(&status.as_str());
        if let Some(status) = keys.quantization_status.filter(|status| !is_stored(status)) {
            return Err(Error::format(format!("`quantization_status` is {status:?}"))
                .hint("only layers that are stored quantized, \"compressed\" or \"frozen\", can be read"));
        }
        let is_set = |value: &Option<Value>| {
            value.as_ref().is_some_and(|value| {
                !value.is_null()
                    && value.as_object().is_none_or(|some| !some.is_empty())
                    && value.get("format").is_none_or(|format| format != "dense")
                    && value
                        .get("config_groups")
                        .is_none_or(|groups| groups.as_object().is_none_or(|some| !some.is_empty()))
            })
        };
        for (name, value) in [("sparsity_config", keys.sparsity_config), ("transform_config", keys.transform_config)] {
            if is_set(&value) {
                return Err(Error::format(format!("`{name}` says that weights are stored in yet another way"))
                    .hint("use a checkpoint that is quantized only"));
            }
        }
        let (mut schemes, mut left) = (Vec::new(), Vec::new());
        for (name, group) in keys.config_groups {
            let Some(weights) = group.weights else {
                left.extend(group.targets.iter().map(|target| Target::new(target)).collect::<Result<Vec<_>>>()?);
                continue;
            };
            let format = group.format.or_else(|| keys.format.clone()).unwrap_or_default();
            let targets = group.targets.iter().map(|target| Target::new(target)).collect::<Result<_>>()?;
            let inputs = group.input_activations.is_some_and(|inputs| !inputs.is_null());
            schemes.push(scheme(&format, weights, targets, inputs).context(|| format!("`{name}`"))?);
        }
        let ignore = keys.ignore.into_iter().flatten().map(|name| Target::new(&name)).collect::<Result<_>>()?;
        Ok(Self { schemes, left, ignore })
    }

    fn scheme(&self, module: &str) -> Option<&Scheme> {
        if self.ignore.iter().any(|ignored| ignored.means(module)) {
            return None;
        }
        // As `match_targets`: a name counts before a pattern, a pattern before the class, and the first of several in
        // alphabetical order. Of groups with the same target, the last one has it.
        let best = self.schemes.iter().rev().filter_map(|scheme| Some((rank(&scheme.targets, module)?, scheme)));
        let (found, scheme) = best.min_by_key(|(rank, _)| *rank)?;
        rank(&self.left, module).is_none_or(|left| found <= left).then_some(scheme)
    }
}

/// How closely the nearest of these targets means a layer.
fn rank<'a>(targets: &'a [Target], module: &str) -> Option<(u8, &'a str)> {
    targets.iter().filter_map(|target| target.rank(module)).min()
}

/// # Errors
/// A combination that is not read.
fn scheme(format: &str, weights: Weights, targets: Vec<Target>, inputs: bool) -> Result<Scheme> {
    let Weights { num_bits: bits, symmetric, block_structure, .. } = weights;
    let kind = weights.kind.unwrap_or_else(|| "int".to_owned());
    // `naive-quantized` is what either was called first.
    let format = match (format, kind.as_str()) {
        ("naive-quantized", "float") => "float-quantized",
        ("naive-quantized", _) => "int-quantized",
        (other, _) => other,
    };
    let Some((_, format, known)) = FORMATS.iter().find(|(name, ..)| *name == format) else {
        let known = FORMATS.map(|(name, ..)| name).join(", ");
        return Err(Error::format(format!("`format` is {format:?}")).hint(format!("{known} can be read")));
    };
    let is_float = matches!(format, Format::Float | Format::Nvfp4 | Format::Mxfp4);
    if !known.contains(&bits) || is_float != (kind == "float") || (is_float && !symmetric) {
        let zeros = if symmetric { "" } else { ", with zero points" };
        return Err(Error::format(format!("weights of {bits} bits of type {kind:?}{zeros} are not read"))
            .hint(format!("that format has {known:?} bits")));
    }
    // Nothing is one scale for the matrix, -1 one for each row.
    let is_unsaid = weights.group_size.is_none();
    let size = weights.group_size.map(group_size).transpose()?.flatten();
    let strategy = match (weights.strategy.as_deref(), size) {
        (Some("tensor"), _) => Strategy::Tensor,
        (None, None) if is_unsaid => Strategy::Tensor,
        (Some("channel"), _) | (None, None) => Strategy::Channel,
        (Some("group" | "tensor_group") | None, Some(size)) => Strategy::Group(size),
        (Some("block"), _) => Strategy::Block(block(&block_structure).ok_or_else(|| {
            Error::format(format!("`block_structure` is {block_structure}")).hint("[128, 128] is usual")
        })?),
        (other, size) => return Err(Error::format(format!("`strategy` is {other:?} with groups of {size:?}"))),
    };
    let fits = match format {
        Format::Packed => !matches!(strategy, Strategy::Block(_)),
        Format::Int | Format::Float => true,
        Format::Nvfp4 => strategy == Strategy::Group(16),
        Format::Mxfp4 => strategy == Strategy::Group(32),
    };
    if !fits {
        return Err(Error::format(format!("its `strategy` is {strategy:?}, which its format does not have")));
    }
    Ok(Scheme { targets, format: *format, bits, symmetric, strategy, inputs })
}

/// Rows and columns of a block: `[128, 128]`, or "128x128", as older versions have it.
fn block(structure: &Value) -> Option<[usize; 2]> {
    let sizes: Vec<usize> = match structure.as_str() {
        Some(text) => text.split('x').map(|size| size.parse().ok()).collect::<Option<_>>()?,
        None => Vec::deserialize(structure).ok()?,
    };
    <[usize; 2]>::try_from(sizes).ok().filter(|sizes| !sizes.contains(&0))
}

impl Scheme {
    /// Rows and columns that share a scale.
    fn block(&self, [n, k]: [usize; 2]) -> [usize; 2] {
        match self.strategy {
            Strategy::Tensor => [n, k],
            Strategy::Channel => [1, k],
            Strategy::Group(size) => [1, size],
            Strategy::Block(block) => block,
        }
    }

    /// # Errors
    /// Tensors that are missing or of another shape; zero points where there should be none.
    fn layer(&self, [n, k]: [usize; 2], parts: &dyn Parts) -> Result<PackedLayer> {
        if self.symmetric
            && let Some(zeros) = parts.find("weight_zero_point")?
            && zeros.bytes.iter().any(|&byte| byte != 0)
        {
            return Err(Error::format(format!("`{}` is not 0, though `symmetric` is true", zeros.name))
                .hint("config.json and the weights may belong to different models"));
        }
        let (bits, block) = (self.bits, self.block([n, k]));
        let blocks = [n.div_ceil(block[0]), k.div_ceil(block[1])];
        let flat = [blocks[0] * blocks[1]];
        // A single scale, or one for each row, may have a dimension less.
        let shapes: &[&[usize]] = match self.strategy {
            Strategy::Tensor => &[&[1], &[], &blocks],
            Strategy::Channel => &[&blocks, &flat],
            Strategy::Group(_) | Strategy::Block(_) => &[&blocks],
        };
        let scales = parts.get("weight_scale")?;
        let mut scales =
            if self.format == Format::Mxfp4 { scales.exponents(shapes)? } else { scales.floats(shapes)? };
        let integers = [Dtype::I32, Dtype::U32];
        let half = 1_u32 << (bits - 1);
        let mut zeros = Vec::new();
        let codes = match self.format {
            Format::Packed => {
                let words = (k * bits as usize).div_ceil(32);
                let shape = parts.get("weight_shape")?;
                if shape.clone().whole_numbers(2)? != [n as i64, k as i64] {
                    return Err(Error::format(format!("`{}` is not [{n}, {k}]", shape.name)));
                }
                let bytes = parts.get("weight_packed")?.bytes_of(&integers, &[n, words])?;
                zeros = match self.symmetric {
                    true => vec![half as f32; scales.len()],
                    false => self.packed_zeros(blocks, parts)?,
                };
                (Codes::Rows { bytes, bits, row_bytes: 4 * words }, Values::Whole(bits))
            }
            Format::Int => {
                let bytes = parts.get("weight")?.bytes_of(&[Dtype::I8], &[n, k])?;
                if !self.symmetric {
                    zeros = parts.get("weight_zero_point")?.floats(shapes)?;
                }
                let signed = (0..=255_u8).map(|code| f32::from(code.cast_signed())).collect();
                (Codes::Rows { bytes, bits: 8, row_bytes: k }, Values::Table(signed))
            }
            Format::Float => e4m3_codes(parts, [n, k])?,
            Format::Nvfp4 | Format::Mxfp4 => {
                if !k.is_multiple_of(block[1]) {
                    return Err(Error::format(format!("{k} inputs cannot be divided into groups of {}", block[1])));
                }
                if self.format == Format::Nvfp4 {
                    let global = parts.get("weight_global_scale")?.floats(&[&[1], &[]])?;
                    scales.iter_mut().zip(global.iter().cycle()).for_each(|(scale, global)| *scale /= global);
                    if scales.iter().any(|scale| !scale.is_finite()) {
                        return Err(Error::format(format!("`weight_global_scale` is {global:?}")));
                    }
                }
                let bytes = parts.get("weight_packed")?.bytes_of(&[Dtype::U8], &[n, k / 2])?;
                (Codes::Rows { bytes, bits: 4, row_bytes: k / 2 }, Values::Table((0..16).map(e2m1).collect()))
            }
        };
        let layer = PackedLayer::new([n, k], codes, block, scales, zeros)?;
        match parts.find("weight_g_idx")? {
            None => Ok(layer),
            Some(groups) => {
                let groups = groups.words(&[k])?;
                // What it begins with, and keeps where nothing was sorted.
                if groups.contains(&u32::MAX) { Ok(layer) } else { layer.with_groups(groups) }
            }
        }
    }

    /// Zero points that are packed down the columns, as codes are.
    fn packed_zeros(&self, [rows, groups]: [usize; 2], parts: &dyn Parts) -> Result<Vec<f32>> {
        let words = (rows * self.bits as usize).div_ceil(32);
        let stored = transposed(&parts.get("weight_zero_point")?.words(&[words, groups])?, groups);
        let (mut codes, mut zeros) = (vec![0; rows], Vec::with_capacity(rows * groups));
        for line in stored.chunks_exact(words) {
            from_stream(|index| line[index], self.bits, &mut codes);
            zeros.extend(codes.iter().copied().map(f32::from));
        }
        Ok(transposed(&zeros, rows))
    }
}

impl Layout for CompressedTensors {
    fn marker(&self) -> &'static str {
        "weight_scale"
    }

    fn leaves(&self, module: &str) -> bool {
        self.scheme(module).is_none()
    }

    fn layer(&self, module: &str, shape: [usize; 2], parts: &dyn Parts) -> Result<PackedLayer> {
        let scheme = self.scheme(module).ok_or_else(|| Error::format("none of the `config_groups` is for it"))?;
        scheme.layer(shape, parts)
    }

    fn groups(&self) -> Vec<Option<usize>> {
        let packed = self.schemes.iter().filter(|scheme| scheme.format == Format::Packed && scheme.bits == 4);
        let sizes = packed.filter_map(|scheme| match scheme.strategy {
            Strategy::Group(size) => Some(Some(size)),
            Strategy::Channel => Some(None),
            _ => None,
        });
        sizes.collect()
    }
}

impl std::fmt::Display for CompressedTensors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = |scheme: &Scheme| {
            let name = FORMATS.iter().find(|(_, format, _)| *format == scheme.format).map_or("", |(name, ..)| name);
            let inputs = if scheme.inputs { " (inputs stay as they are)" } else { "" };
            format!("{name} of {} bits{inputs}", scheme.bits)
        };
        let mut names: Vec<String> = self.schemes.iter().map(name).collect();
        names.dedup();
        write!(f, "{METHOD} {}", names.join(" and "))
    }
}

/// `None` for anything but affine int4. `in_whole`: the names of layers to skip mean no others.
pub(super) fn write(config: &QuantizationConfig, in_whole: bool) -> Option<Value> {
    let QuantizationMethod::Int4 { group_size, int8_inputs: false, .. } = config.method else { return None };
    let mut ignore = match config.head {
        Head::AsLoaded => vec!["lm_head".to_owned()],
        Head::AsLayers => Vec::new(),
        Head::Int8 => return None,
    };
    for name in config.skip_modules.iter().flatten().filter(|name| *name != "lm_head") {
        if in_whole {
            ignore.push(name.clone());
            continue;
        }
        // What a name to skip means: see `names` in `config.rs`.
        let escaped = name.replace('.', "\\.");
        ignore.extend([format!("re:(.*\\.)?{escaped}$"), format!("re:.*{escaped}\\..*")]);
    }
    Some(json!({
        "config_groups": {
            "group_0": {
                "input_activations": null,
                "output_activations": null,
                "targets": ["Linear"],
                "weights": {
                    "dynamic": false,
                    "group_size": group_size,
                    "num_bits": 4,
                    "strategy": "group",
                    "symmetric": false,
                    "type": "int",
                },
            },
        },
        "format": "pack-quantized",
        "ignore": ignore,
        "kv_cache_scheme": null,
        "quant_method": METHOD,
        "quantization_status": "compressed",
    }))
}

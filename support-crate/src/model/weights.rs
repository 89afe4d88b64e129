//! A model's tensors by name: memory-mapped safetensors files, or random numbers.

use std::borrow::Cow;
use std::collections::HashMap;

use candle_core::{DType, Device, Tensor};
use memmap2::Mmap;
use safetensors::SafeTensors;
use safetensors::tensor::Metadata;

use crate::error::{Context, Error, Result};
use crate::source::{ModelFile, WeightSource};

/// The tensors of a model, not yet loaded.
pub struct Weights {
    origin: Origin,
}

enum Origin {
    Files { shards: Vec<Shard>, shard_of: HashMap<String, usize> },
    Random { seed: u64 },
}

/// One safetensors file whose header has been read and checked.
struct Shard {
    name: String,
    bytes: ShardBytes,
    metadata: Metadata,
    data_start: usize,
}

enum ShardBytes {
    Mapped(Mmap),
    Held(Cow<'static, [u8]>),
}

impl Weights {
    /// Opens the files and checks their headers; no tensor is read yet.
    ///
    /// # Errors
    /// A file that cannot be opened, is cut short, or whose header does not describe it.
    pub fn open(source: &WeightSource) -> Result<Self> {
        let files = match source {
            WeightSource::Random { seed } => return Ok(Self { origin: Origin::Random { seed: *seed } }),
            WeightSource::Safetensors(files) => files,
        };
        let shards = files.iter().map(Shard::open).collect::<Result<Vec<_>>>()?;
        let shard_of = shards
            .iter()
            .enumerate()
            .flat_map(|(index, shard)| shard.metadata.offset_keys().into_iter().map(move |name| (name, index)))
            .collect();
        Ok(Self { origin: Origin::Files { shards, shard_of } })
    }

    /// Whether there is a tensor of this name. Random weights have every tensor but a separate head.
    pub fn contains(&self, name: &str) -> bool {
        match &self.origin {
            Origin::Files { shard_of, .. } => shard_of.contains_key(name),
            Origin::Random { .. } => name.starts_with("transformer."),
        }
    }

    /// Loads a tensor of the given shape as `dtype` onto `device`.
    ///
    /// # Errors
    /// No tensor of that name, another shape, or numbers that are not floating-point.
    pub fn load(&self, name: &str, shape: &[usize], dtype: DType, device: &Device) -> Result<Tensor> {
        match &self.origin {
            Origin::Files { .. } => Ok(self.stored(name, shape)?.to_dtype(dtype)?.to_device(device)?),
            Origin::Random { seed } => random(*seed, name, shape, dtype, device),
        }
    }

    /// Loads a matrix that is stored as (in, out), the way GPT-2 stores them, as (out, in).
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn load_transposed(
        &self,
        name: &str,
        n_in: usize,
        n_out: usize,
        dtype: DType,
        device: &Device,
    ) -> Result<Tensor> {
        match &self.origin {
            Origin::Files { .. } => {
                Ok(self.stored(name, &[n_in, n_out])?.to_dtype(dtype)?.t()?.contiguous()?.to_device(device)?)
            }
            Origin::Random { seed } => random(*seed, name, &[n_out, n_in], dtype, device),
        }
    }

    /// The tensor as the file has it, on the CPU.
    fn stored(&self, name: &str, shape: &[usize]) -> Result<Tensor> {
        let Origin::Files { shards, shard_of } = &self.origin else {
            return Err(Error::system("random weights are not stored"));
        };
        let file = shards.first().map_or("", |shard| shard.name.as_str());
        let shard = shard_of.get(name).map(|&index| &shards[index]);
        let (shard, info) = shard.and_then(|shard| Some((shard, shard.metadata.info(name)?))).ok_or_else(|| {
            Error::format(format!("{file} has no tensor `{name}`"))
                .hint("do config.json and the weights belong to the same model?")
        })?;
        if info.shape != shape {
            return Err(Error::format(format!(
                "{}: tensor `{name}` has shape {:?}, expected {shape:?}",
                shard.name, info.shape
            ))
            .hint("do config.json and the weights belong to the same model?"));
        }
        let stored = match info.dtype {
            safetensors::Dtype::F32 => DType::F32,
            safetensors::Dtype::F16 => DType::F16,
            safetensors::Dtype::BF16 => DType::BF16,
            safetensors::Dtype::F64 => DType::F64,
            other => {
                return Err(Error::format(format!(
                    "{}: tensor `{name}` holds {other:?}, expected floating-point numbers",
                    shard.name
                )));
            }
        };
        let (start, end) = info.data_offsets;
        let bytes = &shard.bytes()[shard.data_start + start..shard.data_start + end];
        Ok(Tensor::from_raw_buffer(bytes, stored, shape, &Device::Cpu)?)
    }
}

impl Shard {
    fn open(file: &ModelFile) -> Result<Self> {
        let name = file.to_string();
        let bytes = match file {
            ModelFile::Bytes { bytes, .. } => ShardBytes::Held(bytes.clone()),
            ModelFile::Path(path) => {
                let handle = std::fs::File::open(path).context(|| format!("cannot open {name}"))?;
                // SAFETY: the map is read-only and private to this value. Like every program that maps
                // weights, this relies on nobody cutting the file short while the value lives.
                ShardBytes::Mapped(unsafe { Mmap::map(&handle) }.context(|| format!("cannot map {name}"))?)
            }
        };
        let (header_len, metadata) = SafeTensors::read_metadata(bytes.as_slice()).map_err(|cause| {
            Error::from(cause)
                .context(format!("{name} is not a whole safetensors file"))
                .hint("the file may be cut short; download or copy it again")
        })?;
        Ok(Self { name, bytes, metadata, data_start: size_of::<u64>() + header_len })
    }

    fn bytes(&self) -> &[u8] {
        self.bytes.as_slice()
    }
}

impl ShardBytes {
    fn as_slice(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            Self::Held(bytes) => bytes,
        }
    }
}

/// Standard deviation of GPT-2's weights before training (`initializer_range` in its config).
const INITIAL_SPREAD: f32 = 0.02;

/// What GPT-2 starts training from: layer norms that change nothing, biases of 0, and matrices of about
/// normally distributed numbers (the sum of four uniform ones, which is quick to make).
fn random(seed: u64, name: &str, shape: &[usize], dtype: DType, device: &Device) -> Result<Tensor> {
    if name.ends_with(".bias") {
        return Ok(Tensor::zeros(shape, dtype, device)?);
    }
    if name.contains("ln_") {
        return Ok(Tensor::ones(shape, dtype, device)?);
    }
    let mut state =
        name.bytes().fold(seed, |state, byte| (state ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3));
    // The sum of four uniform 16-bit numbers has this spread around twice their range.
    let scale = INITIAL_SPREAD / (65_536.0 / 3.0_f32.sqrt());
    let values: Vec<f32> = (0..shape.iter().product())
        .map(|_| {
            let bits = split_mix(&mut state);
            let sum = (bits & 0xFFFF) + ((bits >> 16) & 0xFFFF) + ((bits >> 32) & 0xFFFF) + (bits >> 48);
            (sum as f32 - 131_070.0) * scale
        })
        .collect();
    Ok(Tensor::from_vec(values, shape, &Device::Cpu)?.to_dtype(dtype)?.to_device(device)?)
}

/// Source: Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators".
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut bits = *state;
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_weights_have_the_promised_spread_and_repeat() {
        let load = |name: &str| {
            let tensor = random(1, name, &[64, 512], DType::F32, &Device::Cpu).unwrap();
            tensor.flatten_all().unwrap().to_vec1::<f32>().unwrap()
        };
        let values = load("transformer.wte.weight");
        let n = values.len() as f32;
        let mean = values.iter().sum::<f32>() / n;
        let spread = (values.iter().map(|x| (x - mean).powi(2)).sum::<f32>() / n).sqrt();
        assert!(mean.abs() < 5e-4 && (spread - INITIAL_SPREAD).abs() < 5e-4, "{mean} {spread}");
        assert_eq!(values, load("transformer.wte.weight"));
        assert_ne!(values, load("transformer.wpe.weight"));
    }
}

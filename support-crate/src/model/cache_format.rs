//! What keys and values are kept in.

use std::fmt;
use std::str::FromStr;

use quantlab_kernels::{KvBits, QuantizedKv};
use serde::Serialize;

use super::{DecoderConfig, Precision};
use crate::error::{Error, Result};

/// A format of keys and values.
///
/// Every engine has the one that it computes in, on the CPU float32; `kernels` also has float16, int8 and int4. In the last
/// two, keys and values are integers of 8 and 4 bits, except for the last 128 tokens of each sequence, which are also kept
/// in float16. 32 tokens share a scale in each channel of keys, and 32 channels of a token in its values: the lowest number
/// and a step, 4 bytes. The query at position p reads as integers what lies before `32 floor((p - 32) / 32)`, and 32 to 63
/// tokens before it in float16, whether its tokens came together or one by one.
///
/// Source: Liu et al. 2024, "KIVI: A Tuning-Free Asymmetric 2bit Quantization for KV Cache", arXiv:2402.02750. There, 128
/// tokens stay in float16, and the tokens of a prompt see all of it in float16.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CacheFormat {
    /// 4 bytes a number.
    Float32,
    /// 2 bytes a number, of engines that compute in it.
    BFloat16,
    /// 2 bytes a number.
    Float16,
    /// 1 byte a number, and a ninth bit for scales.
    Int8,
    /// 4 bits a number, and a fifth bit for scales.
    Int4,
}

impl CacheFormat {
    /// Every format, widest first.
    pub const ALL: [Self; 5] = [Self::Float32, Self::BFloat16, Self::Float16, Self::Int8, Self::Int4];

    /// The codes of a quantized format.
    pub(super) fn kv_bits(self) -> Option<KvBits> {
        match self {
            Self::Int8 => Some(KvBits::Eight),
            Self::Int4 => Some(KvBits::Four),
            _ => None,
        }
    }

    /// Bytes of the keys and values of one head, with room for `capacity` tokens of `head_dim` numbers.
    ///
    /// Quantized, with G groups of 32 tokens that are ever read as integers of b bits:
    /// `2 G 32 D b / 8 + 4 G (D + 32 ceil(D / 32)) + 4 min(capacity, 128) D`.
    pub fn bytes_of_head(self, capacity: usize, head_dim: usize) -> f64 {
        let (tokens, d) = (capacity as f64, head_dim as f64);
        let bits = match self {
            Self::Float32 => return 8.0 * tokens * d,
            Self::BFloat16 | Self::Float16 => return 4.0 * tokens * d,
            Self::Int8 => 8.0,
            Self::Int4 => 4.0,
        };
        let groups = (QuantizedKv::coded_before(capacity.saturating_sub(1)) / 32) as f64;
        groups * (8.0 * d * bits + 4.0 * (d + 32.0 * (d / 32.0).ceil())) + 4.0 * tokens.min(128.0) * d
    }
}

impl DecoderConfig {
    /// Bytes of the keys and values of `batch` sequences of at most `capacity` tokens: what
    /// [`KvCache::bytes`](super::KvCache::bytes) finds allocated.
    ///
    /// ```
    /// use quantlab::model::{CacheFormat, DecoderConfig};
    /// use quantlab::source::ModelId;
    ///
    /// let llama = DecoderConfig::read(&"random:llama-3.2-1b".parse::<ModelId>()?.resolve()?.config)?;
    /// let mib = |format| llama.cache_bytes(format, 1, 4096) / f64::from(1 << 20);
    /// assert_eq!(mib(CacheFormat::Float32), 256.0);
    /// assert!(mib(CacheFormat::Int4) < 44.0);
    /// # Ok::<(), quantlab::error::Error>(())
    /// ```
    pub fn cache_bytes(&self, format: CacheFormat, batch: usize, capacity: usize) -> f64 {
        self.cache_bytes_of(self.n_layer, format, batch, capacity)
    }

    /// In floating point, since `batch` may be any number.
    pub(super) fn cache_bytes_of(&self, layers: usize, format: CacheFormat, batch: usize, capacity: usize) -> f64 {
        (layers * self.n_kv_head) as f64 * batch as f64 * format.bytes_of_head(capacity, self.head_dim)
    }
}

impl From<Precision> for CacheFormat {
    fn from(precision: Precision) -> Self {
        match precision {
            Precision::Float32 => Self::Float32,
            Precision::BFloat16 => Self::BFloat16,
            Precision::Float16 => Self::Float16,
        }
    }
}

/// Reads `float32`, `float16`, `int8`, `int4` and so on, in any case.
impl FromStr for CacheFormat {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.trim().to_ascii_lowercase().as_str() {
            "int8" => Ok(Self::Int8),
            "int4" => Ok(Self::Int4),
            other => other.parse::<Precision>().map(Self::from).map_err(|_| {
                Error::input(format!("unknown format of keys and values `{text}`"))
                    .hint("use float32, bfloat16, float16, int8 or int4")
            }),
        }
    }
}

impl fmt::Display for CacheFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back_and_unknown_ones_name_the_choices() {
        for format in CacheFormat::ALL {
            assert_eq!(format.to_string().to_uppercase().parse::<CacheFormat>().unwrap(), format);
        }
        let error = "int3".parse::<CacheFormat>().unwrap_err().to_string();
        assert!(error.contains("`int3`") && error.contains("int8 or int4"), "{error}");
    }
}

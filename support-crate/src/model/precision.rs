//! Which number format a model's weights are kept in.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use super::device::Device;
use crate::error::{Error, Result};

/// A floating-point format for weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Precision {
    /// 4 bytes a number: 8 bits of exponent, 23 of fraction.
    Float32,
    /// 2 bytes a number: the range of float32 with 7 bits of fraction.
    BFloat16,
    /// 2 bytes a number: 5 bits of exponent, 10 of fraction; overflows beyond 65,504.
    Float16,
}

/// A precision that the device can really use, and how to call it towards people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ResolvedDtype {
    /// What the weights will be.
    pub dtype: Precision,
    /// For example `float32`, or `float32 (forced on CPU)` when something else was asked for.
    pub label: String,
}

/// Turns what was asked for into what the device can do, and says so if that differs.
///
/// float16 on a CPU becomes float32: most CPUs have no fast float16 arithmetic, and there is no kernel for
/// it here; emulated, it would be slower than float32 and lose range. bfloat16 stays: the weights take half
/// the memory, inputs of products are rounded to bfloat16 too, and everything is added up in float32. Newer
/// processors have an instruction for that; on others a bfloat16 is widened, which is a shift.
///
/// ```
/// use quantlab::model::{Device, resolve_dtype};
///
/// assert_eq!(resolve_dtype("Float16", Device::Cpu).unwrap().label, "float32 (forced on CPU)");
/// assert_eq!(resolve_dtype("bfloat16", Device::Cpu).unwrap().label, "bfloat16");
/// ```
///
/// # Errors
/// The text is not the name of a precision.
pub fn resolve_dtype<P>(requested: P, device: Device) -> Result<ResolvedDtype>
where
    P: TryInto<Precision>,
    Error: From<P::Error>,
{
    let requested = requested.try_into()?;
    Ok(match (requested, device) {
        (Precision::Float16, Device::Cpu) => {
            ResolvedDtype { dtype: Precision::Float32, label: "float32 (forced on CPU)".to_owned() }
        }
        _ => ResolvedDtype { dtype: requested, label: requested.to_string() },
    })
}

impl Precision {
    /// Every precision, widest first.
    pub const ALL: [Self; 3] = [Self::Float32, Self::BFloat16, Self::Float16];

    /// Bytes that one number takes.
    pub fn size_in_bytes(self) -> usize {
        match self {
            Self::Float32 => 4,
            Self::BFloat16 | Self::Float16 => 2,
        }
    }

    /// The same format, as candle calls it.
    pub(crate) fn to_candle(self) -> candle_core::DType {
        match self {
            Self::Float32 => candle_core::DType::F32,
            Self::BFloat16 => candle_core::DType::BF16,
            Self::Float16 => candle_core::DType::F16,
        }
    }
}

/// Reads `float32`, `bfloat16`, `float16` and the usual short forms, in any case.
impl FromStr for Precision {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.trim().to_ascii_lowercase().as_str() {
            "float32" | "fp32" | "f32" => Ok(Self::Float32),
            "bfloat16" | "bf16" => Ok(Self::BFloat16),
            "float16" | "fp16" | "f16" => Ok(Self::Float16),
            _ => Err(Error::input(format!("unknown precision `{text}`")).hint("float32, bfloat16 or float16")),
        }
    }
}

impl TryFrom<&str> for Precision {
    type Error = Error;

    fn try_from(text: &str) -> Result<Self> {
        text.parse()
    }
}

impl TryFrom<&String> for Precision {
    type Error = Error;

    fn try_from(text: &String) -> Result<Self> {
        text.parse()
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Float32 => "float32",
            Self::BFloat16 => "bfloat16",
            Self::Float16 => "float16",
        })
    }
}

impl Serialize for Precision {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lesson_table_of_labels() {
        let label = |requested: &str, device| resolve_dtype(requested, device).unwrap().label;
        assert_eq!(label("float16", Device::Cuda(0)), "float16");
        assert_eq!(label("float16", Device::Cpu), "float32 (forced on CPU)");
        assert_eq!(label("FLOAT32", Device::Cpu), "float32");
        assert_eq!(label("float32", Device::Cuda(0)), "float32");
        assert_eq!(label(" bf16 ", Device::Cpu), "bfloat16");
        assert_eq!(resolve_dtype(Precision::BFloat16, Device::Cpu).unwrap().dtype, Precision::BFloat16);
    }

    #[test]
    fn unknown_precision_names_the_choices() {
        let error = resolve_dtype("int3", Device::Cpu).unwrap_err();
        assert!(error.to_string().contains("`int3`") && error.to_string().contains("bfloat16"), "{error}");
    }

    #[test]
    fn names_read_back() {
        for precision in Precision::ALL {
            assert_eq!(precision.to_string().parse::<Precision>().unwrap(), precision);
        }
    }
}

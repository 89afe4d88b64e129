//! Which number format a device can compute in.

use serde::Serialize;

use super::device::Device;
use crate::error::{Error, Result};
use crate::precision::Precision;

/// A precision that the device can really use, and the label that people see.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ResolvedDtype {
    /// The precision of the weights.
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
    /// The same format, as candle calls it.
    pub(crate) fn to_candle(self) -> candle_core::DType {
        match self {
            Self::Float32 => candle_core::DType::F32,
            Self::BFloat16 => candle_core::DType::BF16,
            Self::Float16 => candle_core::DType::F16,
        }
    }

    /// What a model of this precision computes in on a device: float32 on a CPU, its own precision elsewhere.
    pub(crate) fn computed_on(self, device: Device) -> Self {
        if device.is_cpu() { Self::Float32 } else { self }
    }

    /// The same format in a file of tensors.
    pub(crate) fn to_safetensors(self) -> safetensors::Dtype {
        match self {
            Self::Float32 => safetensors::Dtype::F32,
            Self::BFloat16 => safetensors::Dtype::BF16,
            Self::Float16 => safetensors::Dtype::F16,
        }
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
}

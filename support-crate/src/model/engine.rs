//! What computes a model.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use super::Device;
use super::tensor_library::{Candle, Torch};
use crate::error::{Error, Result};

/// What computes a model, and whose memory holds its weights.
///
/// A comparison between precisions runs on one engine; every label names the engine that computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    /// This library's own kernels over its own memory, on the CPU. Weights that a file stores in the format that is
    /// computed with are read from the mapped file.
    #[default]
    Kernels,
    /// candle's tensors and operations.
    Candle,
    /// libtorch's tensors and operations, on the CPU or on a CUDA device.
    Tch,
}

impl Engine {
    /// Every engine.
    pub const ALL: [Self; 3] = [Self::Kernels, Self::Candle, Self::Tch];

    /// The engine that computes if none is asked for: the kernels on a CPU. On a GPU, which they do not support, it is
    /// libtorch, or candle if only candle can use this one.
    pub fn for_device(device: Device) -> Self {
        let can = |engine: Self| engine.check_device(device).is_ok();
        match device {
            Device::Cpu => Self::Kernels,
            Device::Cuda(_) if !can(Self::Tch) && can(Self::Candle) => Self::Candle,
            Device::Cuda(_) => Self::Tch,
        }
    }

    /// `kernels`, `candle` or `tch`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kernels => "kernels",
            Self::Candle => "candle",
            Self::Tch => "tch",
        }
    }

    /// # Errors
    /// The engine has no support for the device, or the device is not there.
    pub(super) fn check_device(self, device: Device) -> Result<()> {
        match self {
            Self::Kernels if device.is_cpu() => Ok(()),
            Self::Kernels => Err(Error::input(format!("the engine `kernels` computes on the CPU, not on {device}"))
                .hint("leave `engine` at `None` for one that can")),
            Self::Candle => Candle::device(device).map(drop),
            Self::Tch => Torch::device(device).map(drop),
        }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Reads the names, in any case. `candle-ops` and `tch-ops` are what `candle` and `tch` were called while these names
/// stood for the kernels over memory of candle and of libtorch.
impl FromStr for Engine {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.trim().to_ascii_lowercase().as_str() {
            "kernels" => Ok(Self::Kernels),
            "candle" | "candle-ops" => Ok(Self::Candle),
            "tch" | "tch-ops" => Ok(Self::Tch),
            _ => Err(Error::input(format!("unknown engine `{text}`")).hint("use kernels, candle or tch")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_former_ones_too() {
        for engine in Engine::ALL {
            assert_eq!(engine.name().to_uppercase().parse::<Engine>().unwrap(), engine);
        }
        assert_eq!("candle-ops".parse::<Engine>().unwrap(), Engine::Candle);
        assert_eq!(" tch-ops".parse::<Engine>().unwrap(), Engine::Tch);
        assert!("torch".parse::<Engine>().unwrap_err().to_string().contains("`torch`"));
    }

    #[test]
    fn each_device_has_an_engine_that_says_what_it_cannot_do() {
        let nowhere = Device::Cuda(63);
        assert_eq!((Engine::for_device(Device::Cpu), Engine::for_device(nowhere)), (Engine::Kernels, Engine::Tch));
        for engine in Engine::ALL {
            assert!(engine.check_device(Device::Cpu).is_ok());
            assert!(engine.check_device(nowhere).unwrap_err().to_string().contains("cuda:63"), "{engine}");
        }
    }
}

//! The libraries whose tensors hold a model's weights.

mod candle;
#[cfg(test)]
mod tests;
mod torch;

use std::fmt;
use std::str::FromStr;

use super::{Device, Precision};
use crate::error::{Error, Result};

pub(super) use candle::Candle;
pub(super) use torch::{Shared, Torch, kind, precision};

/// A library whose tensors hold the weights, and whether a step on the CPU is fused.
///
/// On the CPU, candle and tch differ in who holds the memory; the arithmetic is that of this library's
/// kernels, so both compute the same numbers in the same time. The `-ops` variants call the library's own
/// operations one by one: what one would write with it, to compare with. On a GPU there is no difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Backend {
    /// Weights in candle's tensors.
    #[default]
    Candle,
    /// Weights in libtorch's tensors.
    Tch,
    /// candle's operations, one by one.
    CandleOps,
    /// libtorch's operations, one by one.
    TchOps,
}

impl Backend {
    /// Every backend.
    pub const ALL: [Self; 4] = [Self::Candle, Self::Tch, Self::CandleOps, Self::TchOps];

    /// `candle`, `tch`, `candle-ops` or `tch-ops`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Candle => "candle",
            Self::Tch => "tch",
            Self::CandleOps => "candle-ops",
            Self::TchOps => "tch-ops",
        }
    }

    /// # Errors
    /// This build has no support for the device, or the device is not there.
    pub(super) fn check_device(self, device: Device) -> Result<()> {
        match self {
            Self::Candle | Self::CandleOps => Candle::new(device, Precision::Float32).map(drop),
            Self::Tch | Self::TchOps => Torch::new(device, Precision::Float32).map(drop),
        }
    }

    pub(super) fn one_by_one(self) -> bool {
        matches!(self, Self::CandleOps | Self::TchOps)
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Reads the names, in any case.
impl FromStr for Backend {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let name = text.trim().to_ascii_lowercase();
        Self::ALL
            .into_iter()
            .find(|backend| backend.name() == name)
            .ok_or_else(|| Error::input(format!("unknown backend `{text}`")).hint("candle, tch, candle-ops or tch-ops"))
    }
}

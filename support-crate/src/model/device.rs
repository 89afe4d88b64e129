//! Where a model runs.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::error::{Error, Result};

/// A processor that models run on, whatever the backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Device {
    /// The main processor.
    #[default]
    Cpu,
    /// An NVIDIA GPU, by its number.
    Cuda(usize),
}

/// The fastest device that this build can use: a GPU if the library was built for one and one is
/// there, else the CPU.
pub fn best_device() -> Device {
    let gpu_works = candle_core::utils::cuda_is_available() && candle_core::Device::new_cuda(0).is_ok();
    if gpu_works { Device::Cuda(0) } else { Device::Cpu }
}

impl Device {
    /// Whether this is the main processor.
    pub fn is_cpu(self) -> bool {
        self == Self::Cpu
    }

    /// The same device, as candle calls it.
    ///
    /// # Errors
    /// This build has no support for the device, or the device is not there.
    pub(crate) fn to_candle(self) -> Result<candle_core::Device> {
        match self {
            Self::Cpu => Ok(candle_core::Device::Cpu),
            Self::Cuda(index) => candle_core::Device::new_cuda(index)
                .map_err(|cause| Error::from(cause).context(format!("cannot use {self}")).hint("take `Device::Cpu`")),
        }
    }
}

/// `cpu` or `cuda:0`, as tables and messages show it.
impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(index) => write!(f, "cuda:{index}"),
        }
    }
}

impl Serialize for Device {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

//! Where a model runs.

use std::fmt;

use serde::{Serialize, Serializer};

use super::Engine;

/// A processor that models run on, whatever the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Device {
    /// The main processor.
    #[default]
    Cpu,
    /// An NVIDIA GPU, by its number.
    Cuda(usize),
}

/// The fastest device that this build can use: a GPU if libtorch or candle was built for one and one is there, else
/// the CPU.
pub fn best_device() -> Device {
    let gpu = Device::Cuda(0);
    let gpu_works = [Engine::Tch, Engine::Candle].iter().any(|engine| engine.check_device(gpu).is_ok());
    if gpu_works { gpu } else { Device::Cpu }
}

impl Device {
    /// Whether this is the main processor.
    pub fn is_cpu(self) -> bool {
        self == Self::Cpu
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

//! What computes, and where.

use std::fmt;

use quantlab::model::{Device, Engine, LoadOptions, best_device};

/// An engine on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    pub engine: Engine,
    pub device: Device,
}

impl Place {
    /// Each engine on the CPU, and libtorch on a GPU where there is one that it can use.
    pub fn all() -> impl Iterator<Item = Self> {
        let gpu = Some(Self { engine: Engine::Tch, device: best_device() }).filter(|place| !place.device.is_cpu());
        Engine::ALL.into_iter().map(Self::from).chain(gpu)
    }

    /// Loads into this engine, to this device.
    pub fn options(self) -> LoadOptions {
        LoadOptions { engine: Some(self.engine), device: self.device, ..LoadOptions::default() }
    }
}

/// On the CPU.
impl From<Engine> for Place {
    fn from(engine: Engine) -> Self {
        Self { engine, device: Device::Cpu }
    }
}

/// `tch on cpu`, as messages show it.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}", self.engine, self.device)
    }
}

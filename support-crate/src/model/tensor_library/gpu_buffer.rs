//! Memory of a GPU that is only read, to see how fast that is.

use tch::{Kind, Tensor, no_grad};

use super::torch::TorchTensor;
use super::{Operations, Torch};
use crate::error::Result;
use crate::model::{Device, Precision};

/// Numbers in a buffer: 1 GiB, many times the cache of any GPU. An H200 reads it in a quarter of a millisecond.
const LEN: i64 = 1 << 28;

/// Reads before one waits for them: what starting them takes is hidden behind reading.
const READS: usize = 8;

/// A buffer in a GPU's memory.
#[derive(Debug)]
pub(crate) struct GpuBuffer {
    torch: Torch,
    numbers: TorchTensor,
}

impl GpuBuffer {
    /// Allocates the buffer and writes all of it.
    ///
    /// # Errors
    /// A GPU that libtorch cannot use, or that has less memory free.
    pub fn new(device: Device) -> Result<Self> {
        let torch = Torch::new(device, Precision::Float32)?;
        let options = (Kind::Float, Torch::device(device)?);
        Ok(Self { torch, numbers: TorchTensor(no_grad(|| Tensor::f_ones([LEN].as_slice(), options))?) })
    }

    /// Reads the buffer several times, and says how many bytes that were.
    ///
    /// # Errors
    /// The GPU failed.
    pub fn read(&self) -> Result<usize> {
        self.torch.synchronize()?;
        for _ in 0..READS {
            drop(no_grad(|| self.numbers.0.f_sum(Kind::Float))?);
        }
        self.torch.synchronize()?;
        Ok(READS * self.numbers.0.numel() * size_of::<f32>())
    }
}

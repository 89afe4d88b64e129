//! How much memory a model takes.

use std::fmt;

use serde::Serialize;

use crate::model::Loaded;

pub(crate) const MIB: f64 = 1024.0 * 1024.0;

/// Memory that a model takes, in bytes, counted as transformers counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct MemoryFootprint {
    /// The weights, with shared ones counted once.
    pub parameter_bytes: usize,
    /// What transformers' modules of this model also keep: causal masks, rotary frequencies. The engines here do not
    /// need these, so they are counted for comparison only.
    pub buffer_bytes: usize,
    /// Scales of quantized weights. transformers does not count them, because bitsandbytes keeps them outside of
    /// parameters and buffers; neither does [`total_bytes`](Self::total_bytes).
    pub scale_bytes: usize,
}

impl Loaded {
    /// How much memory the model's weights and buffers take.
    ///
    /// In float32, it is what `model.get_memory_footprint()` of transformers returns. In bfloat16 on a CPU it is
    /// a little more: biases and the scales of normalisations stay in float32 here.
    ///
    /// Source: `PreTrainedModel.get_memory_footprint` in transformers `modeling_utils.py`.
    ///
    /// ```
    /// use quantlab::model::{Device, load_model_and_tokenizer};
    ///
    /// let loaded = load_model_and_tokenizer(&["embedded"], "float32", Device::Cpu)?;
    /// let footprint = loaded.footprint();
    /// assert_eq!(footprint.parameter_bytes, 4 * loaded.model.info().num_parameters);
    /// println!("{footprint}");
    /// # Ok::<(), quantlab::error::Error>(())
    /// ```
    pub fn footprint(&self) -> MemoryFootprint {
        let info = self.model.info();
        MemoryFootprint {
            parameter_bytes: info.parameter_bytes,
            buffer_bytes: info.buffer_bytes,
            scale_bytes: info.quant_state_bytes,
        }
    }
}

impl MemoryFootprint {
    /// Parameters and buffers, in bytes.
    pub fn total_bytes(&self) -> usize {
        self.parameter_bytes + self.buffer_bytes
    }

    /// Parameters and buffers, in MiB.
    pub fn mib(&self) -> f64 {
        self.total_bytes() as f64 / MIB
    }

    /// Parameters, buffers and scales, in MiB: for comparing formats that differ in how many scales they have.
    pub fn mib_with_scales(&self) -> f64 {
        (self.total_bytes() + self.scale_bytes) as f64 / MIB
    }
}

impl fmt::Display for MemoryFootprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [parameters, buffers] = [self.parameter_bytes, self.buffer_bytes].map(|bytes| bytes as f64 / MIB);
        write!(f, "{:.2} MiB: {parameters:.2} of parameters and {buffers:.2} of buffers", self.mib())
    }
}

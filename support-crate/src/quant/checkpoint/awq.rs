//! AWQ, as AutoAWQ saves it for its kernels `gemm` and `gemv`.
//!
//! For `gemm`, a linear layer of k inputs and n outputs has `qweight` (k, n / 8), eight outputs in each word in the order 0,
//! 2, 4, 6, 1, 3, 5, 7 from the lowest bits on; `qzeros` (groups, n / 8), likewise; and `scales` (groups, n). For `gemv`, it
//! has `qweight` (n, k / 8), eight inputs in each word in their order; `qzeros` (n, w), eight groups in each word; and `scales`
//! (n, 8 w), where there is room for more groups than there are.
//!
//! Source: `from_linear` in AutoAWQ `modules/linear/gemm.py` and `gemv.py`, `AwqConfig` in transformers.

use safetensors::Dtype;
use serde::Deserialize;
use serde_json::Value;

use super::names::LeftOut;
use super::packed::{Codes, Values, awq_code, from_stream};
use super::parts::transposed;
use super::{Layout, PackedLayer, Parts, group_size, keys};
use crate::error::{Error, Result};

/// Its `quant_method`.
pub(super) const METHOD: &str = "awq";

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Awq {
    group_size: Option<usize>,
    kernel: Kernel,
    left_out: LeftOut,
}

/// The kernel for which the codes were put in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kernel {
    Gemm,
    Gemv,
}

#[derive(Deserialize)]
struct Keys {
    #[serde(alias = "w_bit")]
    bits: u32,
    #[serde(alias = "q_group_size")]
    group_size: i64,
    version: Option<String>,
    format: Option<String>,
    #[serde(default = "super::yes")]
    zero_point: bool,
    modules_to_not_convert: Option<Vec<String>>,
}

impl Awq {
    /// # Errors
    /// A value that is not understood.
    pub fn read(value: &Value) -> Result<Self> {
        let keys: Keys = keys(value)?;
        if keys.bits != 4 {
            return Err(Error::format(format!("`bits` is {}", keys.bits)).hint("AWQ has 4"));
        }
        let version = keys.version.or(keys.format).unwrap_or_else(|| "gemm".to_owned());
        let kernel = match version.to_ascii_lowercase().as_str() {
            "gemm" => Some(Kernel::Gemm),
            "gemv" => Some(Kernel::Gemv),
            _ => None,
        };
        let Some(kernel) = kernel.filter(|_| keys.zero_point) else {
            let zero_point = if keys.zero_point { "" } else { " without zero points" };
            return Err(Error::format(format!("`version` is {version:?}{zero_point}"))
                .hint("\"gemm\" and \"gemv\", with zero points, can be read"));
        };
        let left_out = LeftOut::new(keys.modules_to_not_convert)?;
        Ok(Self { group_size: group_size(keys.group_size)?, kernel, left_out })
    }

    /// # Errors
    /// As [`Layout::layer`].
    fn of_gemm([n, k]: [usize; 2], group: usize, parts: &dyn Parts) -> Result<PackedLayer> {
        if !n.is_multiple_of(8) {
            return Err(Error::format(format!("{n} outputs of 4 bits do not fill words of 32")));
        }
        let groups = k.div_ceil(group);
        let bytes = parts.get("qweight")?.bytes_of(&[Dtype::I32, Dtype::U32], &[k, n / 8])?;
        let stored = parts.get("qzeros")?.bytes_of(&[Dtype::I32, Dtype::U32], &[groups, n / 8])?;
        let zero = |row: usize, group: usize| f32::from(awq_code(&stored, group, n, row));
        let zeros = (0..n).flat_map(|row| (0..groups).map(move |group| (row, group)));
        let zeros = zeros.map(|(row, group)| zero(row, group)).collect();
        let scales = parts.get("scales")?.floats(&[&[groups, n]])?;
        let codes = (Codes::Interleaved { bytes, n }, Values::Whole(4));
        PackedLayer::new([n, k], codes, [1, group], transposed(&scales, n), zeros)
    }

    /// # Errors
    /// As [`Layout::layer`].
    fn of_gemv([n, k]: [usize; 2], group: usize, parts: &dyn Parts) -> Result<PackedLayer> {
        if !k.is_multiple_of(8) || !k.is_multiple_of(group) {
            return Err(Error::format(format!("{k} inputs of 4 bits do not fill words of 32, or groups of {group}")));
        }
        // The kernel reads as many words of zero points as make 1,024 inputs: one, two or four.
        let (groups, together) = (k / group, (128 / group.min(128)).max(1));
        let width = groups.div_ceil(8).next_multiple_of(together);
        let bytes = parts.get("qweight")?.bytes_of(&[Dtype::I32, Dtype::U32], &[n, k / 8])?;
        let stored = parts.get("qzeros")?.words(&[n, width])?;
        let wide = parts.get("scales")?.floats(&[&[n, 8 * width]])?;
        let zeros = stored.chunks_exact(width).flat_map(|words| {
            let mut codes = vec![0; 8 * width];
            from_stream(|index| words[index], 4, &mut codes);
            codes.into_iter().take(groups).map(f32::from)
        });
        let zeros = zeros.collect();
        let scales = wide.chunks_exact(8 * width).flat_map(|row| &row[..groups]).copied().collect();
        let codes = (Codes::Rows { bytes, bits: 4, row_bytes: k / 2 }, Values::Whole(4));
        PackedLayer::new([n, k], codes, [1, group], scales, zeros)
    }
}

impl Layout for Awq {
    fn marker(&self) -> &'static str {
        "qweight"
    }

    fn leaves(&self, module: &str) -> bool {
        self.left_out.has(module)
    }

    fn may_leave(&self, module: &str) -> bool {
        self.left_out.may_have(module)
    }

    fn layer(&self, _: &str, shape: [usize; 2], parts: &dyn Parts) -> Result<PackedLayer> {
        let group = self.group_size.unwrap_or(shape[1]);
        match self.kernel {
            Kernel::Gemm => Self::of_gemm(shape, group, parts),
            Kernel::Gemv => Self::of_gemv(shape, group, parts),
        }
    }

    fn groups(&self) -> Vec<Option<usize>> {
        vec![self.group_size]
    }
}

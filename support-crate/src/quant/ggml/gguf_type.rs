//! Which format each tensor of a GGUF file gets.
//!
//! Source: `llama_tensor_get_type_impl`, `tensor_type_fallback` and `llama_ftype_get_default_type` in llama.cpp's
//! `llama-quant.cpp`; `llama_ftype` in its `llama.h`.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};
use crate::source::GgmlType;

/// What the tensors of a GGUF file are quantized to, by the names that llama.cpp's `llama-quantize` has. Each stands for
/// a mix: the head, and with the K-quants some layers that matter more, are in finer formats than the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GgufType {
    /// All numbers as they are, 32 bits each.
    F32,
    /// 4.5 bits a weight: a scale for 32 of them. The head is in Q6_K.
    Q4_0,
    /// 5 bits a weight: a scale and a minimum for 32 of them. The head is in Q6_K.
    Q4_1,
    /// 8.5 bits a weight: a scale for 32 of them.
    Q8_0,
    /// Q4_K, 4.5 bits a weight: for 32 of them, a scale and a minimum of 6 bits. A few layers are in Q5_K, the head in
    /// Q6_K.
    Q4KS,
    /// Q4_K, with half of the layers' values and second feed-forward matrices in Q6_K, and the head too: what most
    /// files on the Hub are.
    Q4KM,
    /// 6.6 bits a weight: for 16 of them, a scale of 8 bits.
    Q6K,
}

/// A matrix of weights, and where it stands in the model.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TensorPlace<'a> {
    /// llama.cpp's name for it without the block: `attn_v`, `output`.
    pub part: &'a str,
    pub columns: usize,
    /// Its block, and how many there are; of the head, and of the embedding, any.
    pub block: usize,
    pub blocks: usize,
    /// Whether the head is the token embedding.
    pub is_tied: bool,
    /// Whether llama.cpp takes the model to be one of 70 billion weights, of which it makes an exception.
    pub is_70b: bool,
    /// Whether there is an importance matrix.
    pub has_importance: bool,
}

impl GgufType {
    /// All of them.
    pub const ALL: [Self; 7] = [Self::F32, Self::Q4_0, Self::Q4_1, Self::Q8_0, Self::Q4KS, Self::Q4KM, Self::Q6K];

    /// As llama.cpp calls it: `Q4_K_M`.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "F32",
            Self::Q4_0 => "Q4_0",
            Self::Q4_1 => "Q4_1",
            Self::Q8_0 => "Q8_0",
            Self::Q4KS => "Q4_K_S",
            Self::Q4KM => "Q4_K_M",
            Self::Q6K => "Q6_K",
        }
    }

    /// `general.file_type` of such a file.
    pub(crate) fn id(self) -> u32 {
        match self {
            Self::F32 => 0,
            Self::Q4_0 => 2,
            Self::Q4_1 => 3,
            Self::Q8_0 => 7,
            Self::Q4KS => 14,
            Self::Q4KM => 15,
            Self::Q6K => 18,
        }
    }

    /// What most tensors get.
    fn base(self) -> GgmlType {
        match self {
            Self::F32 => GgmlType::F32,
            Self::Q4_0 => GgmlType::Q4_0,
            Self::Q4_1 => GgmlType::Q4_1,
            Self::Q8_0 => GgmlType::Q8_0,
            Self::Q4KS | Self::Q4KM => GgmlType::Q4K,
            Self::Q6K => GgmlType::Q6K,
        }
    }

    /// The format of a matrix of weights. Where a row is not whole blocks, it is one of smaller blocks, or float16;
    /// where that stands for a block of 32 that was wanted at once, `llama-quantize` ends with an error.
    pub(crate) fn of_tensor(self, place: TensorPlace<'_>) -> GgmlType {
        let base = self.base();
        if base == GgmlType::F32 {
            return base;
        }
        let fits = |kind: GgmlType| place.columns.is_multiple_of(kind.block_len());
        let wanted = self.wanted(place, fits(base));
        let kind = match wanted {
            _ if fits(wanted) => wanted,
            GgmlType::Q4K => GgmlType::Q5_0,
            GgmlType::Q5K => GgmlType::Q5_1,
            GgmlType::Q6K => GgmlType::Q8_0,
            other => other,
        };
        if fits(kind) { kind } else { GgmlType::F16 }
    }

    fn wanted(
        self,
        TensorPlace { part, block, blocks, is_tied, is_70b, has_importance, .. }: TensorPlace<'_>,
        base_fits: bool,
    ) -> GgmlType {
        let base = self.base();
        let is_early = block < blocks / 8;
        let gets_more = || is_early || block >= 7 * blocks / 8 || (block - blocks / 8) % 3 == 2;
        match (part, self) {
            ("output", _) | ("token_embd", _) if part == "output" || is_tied => {
                if base_fits && base != GgmlType::Q8_0 {
                    GgmlType::Q6K
                } else {
                    GgmlType::Q8_0
                }
            }
            // A joint layer has the values too.
            ("attn_v" | "attn_qkv" | "ffn_down", Self::Q4KM) if gets_more() => GgmlType::Q6K,
            ("attn_v" | "attn_qkv", Self::Q4KS) if block < 4 => GgmlType::Q5K,
            // Eight heads share their values there: they are few, and matter the more.
            ("attn_v", Self::Q4KS | Self::Q4KM) if is_70b => GgmlType::Q5K,
            ("ffn_down", Self::Q4KS) if is_early => GgmlType::Q5K,
            ("ffn_down", Self::Q4_0) if is_early && has_importance => GgmlType::Q4_1,
            _ => base,
        }
    }
}

impl fmt::Display for GgufType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for GgufType {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|known| known.name().eq_ignore_ascii_case(name)).ok_or_else(|| {
            let known = Self::ALL.map(Self::name).join(", ");
            Error::input(format!("unknown type of GGUF file {name:?}")).hint(format!("known are {known}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: TensorPlace<'_> = TensorPlace {
        part: "attn_q",
        columns: 4096,
        block: 0,
        blocks: 32,
        is_tied: false,
        is_70b: false,
        has_importance: false,
    };

    fn formats(of: GgufType, place: TensorPlace<'_>) -> Vec<&'static str> {
        (0..place.blocks).map(|block| of.of_tensor(TensorPlace { block, ..place }).name()).collect()
    }

    /// Of Llama 3 8B in Q4_K_M, as its files on the Hub have them.
    #[test]
    fn the_layers_that_get_more_bits_are_those_of_llama_cpp() {
        let of = |part| formats(GgufType::Q4KM, TensorPlace { part, ..PLACE });
        let finer: Vec<usize> =
            of("ffn_down").iter().enumerate().filter(|(_, name)| **name == "Q6_K").map(|(block, _)| block).collect();
        assert_eq!(finer, [0, 1, 2, 3, 6, 9, 12, 15, 18, 21, 24, 27, 28, 29, 30, 31]);
        assert_eq!(of("attn_v"), of("ffn_down"));
        assert_eq!(of("attn_qkv"), of("ffn_down"));
        assert!(of("attn_q").iter().all(|name| *name == "Q4_K"));
        let small = formats(GgufType::Q4KS, TensorPlace { part: "attn_v", ..PLACE });
        assert_eq!((small[3], small[4]), ("Q5_K", "Q4_K"));
        let of_70b = formats(GgufType::Q4KM, TensorPlace { part: "attn_v", is_70b: true, ..PLACE });
        assert_eq!((of_70b[3], of_70b[4]), ("Q6_K", "Q5_K"));
    }

    #[test]
    fn head_and_embedding() {
        let of = |of: GgufType, place| of.of_tensor(place).name();
        let (head, embedding) = (TensorPlace { part: "output", ..PLACE }, TensorPlace { part: "token_embd", ..PLACE });
        let tied = TensorPlace { is_tied: true, ..embedding };
        assert_eq!(GgufType::ALL.map(|kind| of(kind, head)), ["F32", "Q6_K", "Q6_K", "Q8_0", "Q6_K", "Q6_K", "Q6_K"]);
        assert_eq!(GgufType::ALL.map(|kind| of(kind, tied)), GgufType::ALL.map(|kind| of(kind, head)));
        assert_eq!(of(GgufType::Q4KM, embedding), "Q4_K");
    }

    #[test]
    fn rows_that_are_not_whole_blocks() {
        let of = |part, columns| GgufType::Q4KM.of_tensor(TensorPlace { part, columns, ..PLACE }).name();
        assert_eq!((of("attn_q", 576), of("ffn_down", 576), of("output", 576)), ("Q5_0", "Q8_0", "Q8_0"));
        assert_eq!((of("attn_q", 90), of("output", 90)), ("F16", "F16"));
        let of_attention = TensorPlace { part: "attn_v", columns: 576, ..PLACE };
        assert_eq!(GgufType::Q4KS.of_tensor(of_attention).name(), "Q5_1");
    }

    #[test]
    fn names_are_read_as_llama_cpp_writes_them() {
        for kind in GgufType::ALL {
            assert_eq!(kind.to_string().to_lowercase().parse::<GgufType>().unwrap(), kind);
        }
        let error = "Q3_K_M".parse::<GgufType>().unwrap_err();
        assert!(error.to_string().contains("Q4_K_M"), "{error}");
    }
}

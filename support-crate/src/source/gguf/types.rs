//! The number formats of tensors, by the names that llama.cpp gives them.
//!
//! Source: `ggml_type` in `ggml.h`, block layouts in `ggml-common.h`.

macro_rules! ggml_types {
    ($($(#[$doc:meta])* $variant:ident = $id:literal, $name:literal: $numbers:literal in $bytes:literal;)+) => {
        /// A number format of GGUF files.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum GgmlType {
            $($(#[$doc])* $variant,)+
        }

        impl GgmlType {
            /// Every format that is read.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// By the number that files have for it.
            pub(super) fn of(id: u32) -> Option<Self> {
                match id {
                    $($id => Some(Self::$variant),)+
                    _ => None,
                }
            }

            /// The number that files have for it.
            pub(super) fn id(self) -> u32 {
                match self {
                    $(Self::$variant => $id,)+
                }
            }

            /// As llama.cpp calls it, for example `Q4_K`.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            /// Numbers in a block: those that are stored together, and of which a row holds whole multiples.
            pub fn block_len(self) -> usize {
                match self {
                    $(Self::$variant => $numbers,)+
                }
            }

            /// Bytes of a block.
            pub fn block_bytes(self) -> usize {
                match self {
                    $(Self::$variant => $bytes,)+
                }
            }
        }
    };
}

ggml_types! {
    /// 32 bits.
    F32 = 0, "F32": 1 in 4;
    /// 16 bits.
    F16 = 1, "F16": 1 in 2;
    /// 4 bits and a scale for 32 numbers.
    Q4_0 = 2, "Q4_0": 32 in 18;
    /// 4 bits, a scale and a minimum for 32 numbers.
    Q4_1 = 3, "Q4_1": 32 in 20;
    /// 5 bits and a scale for 32 numbers.
    Q5_0 = 6, "Q5_0": 32 in 22;
    /// 5 bits, a scale and a minimum for 32 numbers.
    Q5_1 = 7, "Q5_1": 32 in 24;
    /// 8 bits and a scale for 32 numbers.
    Q8_0 = 8, "Q8_0": 32 in 34;
    /// 2 bits; for 16 numbers a scale and a minimum of 4 bits.
    Q2K = 10, "Q2_K": 256 in 84;
    /// 3 bits; for 16 numbers a scale of 6 bits.
    Q3K = 11, "Q3_K": 256 in 110;
    /// 4 bits; for 32 numbers a scale and a minimum of 6 bits.
    Q4K = 12, "Q4_K": 256 in 144;
    /// 5 bits; for 32 numbers a scale and a minimum of 6 bits.
    Q5K = 13, "Q5_K": 256 in 176;
    /// 6 bits; for 16 numbers a scale of 8 bits.
    Q6K = 14, "Q6_K": 256 in 210;
    /// 4 bits, which stand for one of 16 uneven steps, and a scale for 32 numbers.
    Iq4Nl = 20, "IQ4_NL": 32 in 18;
    /// The same steps; for 32 numbers a scale of 6 bits.
    Iq4Xs = 23, "IQ4_XS": 256 in 136;
    /// The upper 16 bits of 32.
    Bf16 = 30, "BF16": 1 in 2;
}

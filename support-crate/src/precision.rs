//! Which number format weights are kept in.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use crate::error::{Error, Result};

/// A floating-point format for weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// 4 bytes a number: 8 bits of exponent, 23 of fraction.
    #[default]
    Float32,
    /// 2 bytes a number: the range of float32 with 7 bits of fraction.
    BFloat16,
    /// 2 bytes a number: 5 bits of exponent, 10 of fraction; overflows beyond 65,504.
    Float16,
}

impl Precision {
    /// Every precision, widest first.
    pub const ALL: [Self; 3] = [Self::Float32, Self::BFloat16, Self::Float16];

    /// Bytes that one number takes.
    pub fn size_in_bytes(self) -> usize {
        match self {
            Self::Float32 => 4,
            Self::BFloat16 | Self::Float16 => 2,
        }
    }
}

/// Reads `float32`, `bfloat16`, `float16` and the usual short forms, in any case.
impl FromStr for Precision {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.trim().to_ascii_lowercase().as_str() {
            "float32" | "fp32" | "f32" => Ok(Self::Float32),
            "bfloat16" | "bf16" => Ok(Self::BFloat16),
            "float16" | "fp16" | "f16" => Ok(Self::Float16),
            _ => Err(Error::input(format!("unknown precision `{text}`")).hint("use float32, bfloat16 or float16")),
        }
    }
}

impl TryFrom<&str> for Precision {
    type Error = Error;

    fn try_from(text: &str) -> Result<Self> {
        text.parse()
    }
}

impl TryFrom<&String> for Precision {
    type Error = Error;

    fn try_from(text: &String) -> Result<Self> {
        text.parse()
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_precision_names_the_choices() {
        let error = "int3".parse::<Precision>().unwrap_err();
        assert!(error.to_string().contains("`int3`") && error.to_string().contains("bfloat16"), "{error}");
    }

    #[test]
    fn names_read_back() {
        for precision in Precision::ALL {
            assert_eq!(precision.to_string().parse::<Precision>().unwrap(), precision);
        }
    }
}

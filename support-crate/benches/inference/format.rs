//! What the weights are kept in, as the command line names it.

use std::fmt;
use std::str::FromStr;

use quantlab::error::{Error, Result};
use quantlab::model::Precision;
use quantlab::quant::{Head, QuantizationConfig};

/// A precision, or a quantized format with the rest in bfloat16.
#[derive(Debug, Clone, PartialEq)]
pub struct Format {
    name: String,
    pub precision: Precision,
    pub quantization: Option<QuantizationConfig>,
}

/// Reads `float32`, `bfloat16`, `int8`, `nf4`, `fp4`, and the last three with `+head8`: the head in int8 too.
impl FromStr for Format {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let name = text.trim().to_ascii_lowercase();
        let (layers, head) = match name.strip_suffix("+head8") {
            Some(layers) => (layers, Head::Int8),
            None => (name.as_str(), Head::AsLoaded),
        };
        let config = match layers {
            "int8" => QuantizationConfig::int8(),
            "nf4" => QuantizationConfig::nf4(),
            "fp4" => QuantizationConfig::fp4(),
            _ => {
                let precision = name.parse::<Precision>().map_err(|error| {
                    error.hint("float32, bfloat16, int8, nf4, fp4, int8+head8, nf4+head8 or fp4+head8")
                })?;
                return Ok(Self { name: precision.to_string(), precision, quantization: None });
            }
        };
        let quantization = Some(QuantizationConfig { head, ..config });
        Ok(Self { name, precision: Precision::BFloat16, quantization })
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

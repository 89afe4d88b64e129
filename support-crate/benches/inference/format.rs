//! What the weights are kept in, as the command line names it.

use std::fmt;
use std::str::FromStr;

use quantlab::error::{Error, Result};
use quantlab::model::{Loaded, Precision, calibrate};
use quantlab::quant::{CalibrationMethod, FORMATS, GgufType, Granularity, Head, QuantizationConfig};

/// What static int8 is calibrated with.
const PROMPTS: [&str; 4] = [
    "The history of the city begins in the twelfth century, when a castle was built on the hill above the river.",
    "Once upon a time there was a fox who lived at the edge of a wood, and the fox was always hungry.",
    "In 2019 the company sold 1,250,000 machines, 8% more than in the year before.",
    "\"Do you know the way?\" she asked. \"No,\" he said, \"but I know somebody who does.\"",
];

/// Types of GGUF files, with the head in Q6_K where `llama-quantize` has it so.
const GGUF: [(&str, GgufType); 3] =
    [("q8_0", GgufType::Q8_0), ("q4_0+head6", GgufType::Q4_0), ("q4_k_m", GgufType::Q4KM)];

/// A precision, or a quantized format with the rest in a precision.
#[derive(Debug, Clone, PartialEq)]
pub struct Format {
    name: String,
    pub precision: Precision,
    layers: Layers,
}

#[derive(Debug, Clone, PartialEq)]
enum Layers {
    Full,
    Quantized(QuantizationConfig),
    StaticInt8(Head),
    /// As a file has them.
    Gguf(GgufType),
}

impl Format {
    /// As the command line names it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The type of a file that the model is to be loaded from, if there is one.
    pub fn gguf(&self) -> Option<GgufType> {
        match self.layers {
            Layers::Gguf(kind) => Some(kind),
            _ => None,
        }
    }

    /// How a model is quantized; for static int8, `load` gives the model in full precision to calibrate.
    pub fn quantization(&self, load: impl FnOnce() -> Result<Loaded>) -> Result<Option<QuantizationConfig>> {
        Ok(match &self.layers {
            Layers::Full | Layers::Gguf(_) => None,
            Layers::Quantized(config) => Some(config.clone()),
            Layers::StaticInt8(head) => {
                let calibration = calibrate(&load()?, &PROMPTS, CalibrationMethod::AbsMax, Granularity::PerTensor)?;
                Some(QuantizationConfig { head: *head, ..QuantizationConfig::static_int8(calibration) })
            }
        })
    }
}

/// Reads `float32`, `bfloat16`, `static-int8`, and the names of [`FORMATS`](quantlab::quant::FORMATS); quantized formats also
/// with `+head8`, the head in int8 too, `+head`, the head as the layers, and `+float32`, the rest of the model and the
/// products of 4-bit weights in float32; and the names of [`GGUF`].
impl FromStr for Format {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let name = text.trim().to_ascii_lowercase();
        if let Ok(precision) = name.parse::<Precision>() {
            return Ok(Self { name: precision.to_string(), precision, layers: Layers::Full });
        }
        if let Some(&(_, kind)) = GGUF.iter().find(|(gguf, _)| *gguf == name) {
            return Ok(Self { name, precision: Precision::BFloat16, layers: Layers::Gguf(kind) });
        }
        let mut parts = name.split('+');
        let layers = parts.next();
        let (mut head, mut precision) = (Head::AsLoaded, Precision::BFloat16);
        for part in parts {
            match part {
                "head8" => head = Head::Int8,
                "head" => head = Head::AsLayers,
                "float32" => precision = Precision::Float32,
                _ => return Err(unknown(text)),
            }
        }
        let layers = match layers {
            Some("static-int8") => Layers::StaticInt8(head),
            format => {
                let config = format.unwrap_or_default().parse().map_err(|_| unknown(text))?;
                Layers::Quantized(QuantizationConfig { head, compute_dtype: precision, ..config })
            }
        };
        Ok(Self { name, precision, layers })
    }
}

fn unknown(text: &str) -> Error {
    let quantized = FORMATS.iter().map(|format| format.name.replace(' ', "-")).collect::<Vec<_>>().join(", ");
    let files = GGUF.map(|(name, _)| name).join(", ");
    Error::input(format!("{text:?} is not a weight format")).hint(format!(
        "float32, bfloat16, or {quantized}, these also with +head8, +head or +float32; or a GGUF file's: {files}"
    ))
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

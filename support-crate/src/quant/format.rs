//! The table of formats.

use std::str::FromStr;

use super::checkpoint::{BITSANDBYTES, COMPRESSED_TENSORS};
use super::{QuantizationConfig, QuantizationMethod};
use crate::error::{Error, Result};

/// A format that the weights of a model can be quantized to. Its arithmetic is a file of [`quant`](crate::quant), and
/// the way a layer holds it a file of `model/quantized`.
#[derive(Debug)]
pub struct Format {
    /// The name that a [`QuantizationConfig`] is displayed as, and parsed from.
    pub name: &'static str,
    /// Bits of a weight, without scales.
    pub bits: u32,
    /// What shares a scale.
    pub group: &'static str,
    /// What quantizes weights of full precision to it; `None` where more than the weights is needed.
    pub config: Option<fn() -> QuantizationConfig>,
    /// `quant_method` of the checkpoints that it is written as; `None` where it is only made while loading. Those that are
    /// read are in [`CHECKPOINTS`](super::CHECKPOINTS).
    pub quant_method: Option<&'static str>,
    /// Whether the engines `candle` and `tch` compute it too, besides the kernels.
    pub in_libraries: bool,
}

/// Every format.
pub const FORMATS: [Format; 8] = [
    format("nf4", 4, "blocks of 64", QuantizationConfig::nf4, Some(BITSANDBYTES), true),
    format("fp4", 4, "blocks of 64", QuantizationConfig::fp4, Some(BITSANDBYTES), true),
    format("int4-32", 4, "groups of 32 of a row", || QuantizationConfig::int4(32), Some(COMPRESSED_TENSORS), true),
    format("int4-128", 4, "groups of 128 of a row", || QuantizationConfig::int4(128), Some(COMPRESSED_TENSORS), true),
    format("w4a8-32", 4, "groups of 32 of a row, and 32 inputs", || QuantizationConfig::w4a8(32), None, false),
    format("w4a8-128", 4, "groups of 128 of a row, and 32 inputs", || QuantizationConfig::w4a8(128), None, false),
    format("int8", 8, "a row", QuantizationConfig::int8, Some(BITSANDBYTES), true),
    Format { name: "static int8", bits: 8, group: "a row", config: None, quant_method: None, in_libraries: false },
];

const fn format(
    name: &'static str,
    bits: u32,
    group: &'static str,
    config: fn() -> QuantizationConfig,
    quant_method: Option<&'static str>,
    in_libraries: bool,
) -> Format {
    Format { name, bits, group, config: Some(config), quant_method, in_libraries }
}

impl QuantizationConfig {
    /// The row of [`FORMATS`]; for blocks or groups of another size, or codes of fewer bits, that of the same format.
    pub fn format(&self) -> Option<&'static Format> {
        let name = match &self.method {
            QuantizationMethod::Int4 { group_size, int8_inputs: false, .. } => format!("int4-{group_size}"),
            QuantizationMethod::Int4 { group_size, int8_inputs: true, .. } => format!("w4a8-{group_size}"),
            _ => self.name(),
        };
        let without_size = |name: &str| name.split('-').next().map(str::to_owned);
        let same = FORMATS.iter().find(|format| format.name == name);
        same.or_else(|| FORMATS.iter().find(|format| without_size(format.name) == without_size(&name)))
    }
}

/// Reads the names of [`FORMATS`] that can be made from weights alone.
impl FromStr for QuantizationConfig {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let name = text.trim().to_ascii_lowercase();
        let found = FORMATS.iter().find(|format| format.name == name).and_then(|format| format.config);
        found.map(|config| config()).ok_or_else(|| {
            let made = FORMATS.iter().filter(|format| format.config.is_some());
            let known: Vec<&str> = made.map(|format| format.name).collect();
            Error::input(format!("{text:?} is not a weight format")).hint(known.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quant::{GgmlLayout, GgufType, Rounding};
    use crate::source::GgmlType;

    /// docs/formats.md has these tables for people.
    #[test]
    fn the_documentation_has_these_formats() {
        let page = std::fs::read_to_string("../docs/formats.md").unwrap();
        let made = FORMATS.iter().map(|format| {
            let Format { name, bits, group, config, quant_method, in_libraries } = format;
            let from = if config.is_some() { "weights" } else { "weights and a calibration" };
            let engines = if *in_libraries { "kernels, tch, candle" } else { "kernels" };
            format!("| `{name}` | {bits} | {group} | {from} | {} | {engines} |", quant_method.unwrap_or("not"))
        });
        let blocks = GgmlType::ALL.iter().filter_map(|&kind| {
            let bits = GgmlLayout::of(kind)?.bits.count();
            Some(format!("| {} | codes of {bits} bits |", kind.name()))
        });
        let rows: Vec<String> = made.chain(blocks).collect();
        let missing: Vec<&String> = rows.iter().filter(|row| !page.contains(*row)).collect();
        assert!(missing.is_empty(), "what docs/formats.md should say:\n{}", rows.join("\n"));
        let types = GgufType::ALL.map(GgufType::name).join(", ");
        assert!(page.contains(&format!("of the types {types},")), "{types}");
    }

    #[test]
    fn names_are_those_of_the_configurations() {
        for format in &FORMATS {
            let Some(config) = format.config else { continue };
            assert_eq!(config().to_string(), format.name);
            assert_eq!(format.name.to_uppercase().parse::<QuantizationConfig>().unwrap(), config());
            assert_eq!(config().format().unwrap().name, format.name);
            assert_eq!(config().to_json().is_ok(), format.quant_method.is_some());
        }
        assert!(QuantizationConfig::int4(64).format().unwrap().in_libraries, "a size that has no row of its own");
        assert!(!QuantizationConfig::w4a8(64).format().unwrap().in_libraries);
        assert_eq!(QuantizationConfig::affine(3, 32, Rounding::Hqq).format().unwrap().name, "int4-32");
        let error = "int3".parse::<QuantizationConfig>().unwrap_err().to_string();
        assert!(error.contains("\"int3\"") && error.contains("nf4, fp4, int4-32"), "{error}");
    }
}

//! `more_formats`: four more configurations, each with one setting of its own.

use quantlab::model::{LoadOptions, Precision};
use quantlab::quant::{FourBitOptions, Head, QuantizationConfig};

use super::Configuration;
use crate::{Complaint, Score, Verdict, ask};

const HINTS: [&str; 3] = [
    "Which one field of which of the three types does each row of the table change?",
    "`LoadOptions { precision: Precision::BFloat16, ..LoadOptions::default() }` is a whole model in bfloat16. Options of \
     NF4 become a format with `QuantizationConfig::four_bit(options)`; the head is a field of `QuantizationConfig`. \
     `Configuration::quantized(name, config)` leaves the rest in float32 on the CPU.",
    "`FourBitOptions { double_quant: true, ..FourBitOptions::default() }`, `FourBitOptions { blocksize: 32, \
     ..FourBitOptions::default() }` and `QuantizationConfig { head: Head::Int8, ..QuantizationConfig::nf4() }`",
];

/// Checks `more_formats()`.
pub fn check_more_formats(yours: fn() -> Vec<Configuration>) -> Score {
    let given = ask(|| Ok(yours()));
    let [bf16, double, head, fine] = expected();
    Score::new("more_formats", HINTS)
        .about(&given, "BF16 is the whole model in bfloat16", |given| is_like(given, &bf16))
        .about(&given, "one is NF4 with double quantization", |given| is_like(given, &double))
        .about(&given, "one is NF4 with its head in INT8", |given| is_like(given, &head))
        .about(&given, "one is NF4 in blocks of 32", |given| is_like(given, &fine))
        .about(&given, "they come in this order, and no others", |given| {
            let names: Vec<&str> = given.iter().map(|one| one.name.as_str()).collect();
            Complaint::unless(names == expected().each_ref().map(|one| one.name.as_str()), || {
                format!("the names are {names:?}: later cells look for those of the table, in its order")
            })
        })
}

fn expected() -> [Configuration; 4] {
    let plain = FourBitOptions::default();
    let four_bit = |name: &str, options| Configuration::quantized(name, QuantizationConfig::four_bit(options));
    let bfloat16 = LoadOptions { precision: Precision::BFloat16, ..LoadOptions::default() };
    let head = QuantizationConfig { head: Head::Int8, ..QuantizationConfig::nf4() };
    [
        Configuration::new("BF16", bfloat16),
        four_bit("NF4, double", FourBitOptions { double_quant: true, ..plain }),
        Configuration::quantized("NF4, head INT8", head),
        four_bit("NF4, blocks of 32", FourBitOptions { blocksize: 32, ..plain }),
    ]
}

fn is_like(given: &[Configuration], expected: &Configuration) -> Verdict {
    let Some(one) = given.iter().find(|one| one.name == expected.name) else {
        return wrong!("there is no configuration called {:?}", expected.name);
    };
    let (got, wanted) = (&one.options, &expected.options);
    let format =
        |options: &LoadOptions| options.quantization.as_ref().map_or("none".to_owned(), |it| format!("{it:?}"));
    match () {
        () if got == wanted => Ok(()),
        () if got.precision != wanted.precision => {
            wrong!("{:?} has the precision {}, not {}", one.name, got.precision, wanted.precision)
        }
        () if got.quantization != wanted.quantization => {
            wrong!("{:?} has the quantization {}, not {}", one.name, format(got), format(wanted))
        }
        () => wrong!("{:?} differs in more than its format: leave every other option at its default", one.name),
    }
}

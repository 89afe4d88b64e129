//! `configurations`: the baseline and three quantized formats, which differ in nothing else.

use quantlab::model::{Device, Engine, LoadOptions, Precision};
use quantlab::quant::{FourBit, FourBitOptions, Head, QuantizationConfig, QuantizationMethod as Method};

use super::Configuration;
use crate::cases::DEVICES;
use crate::{Complaint, Score, Verdict, ask};

const FORMATS: [&str; 3] = ["INT8", "NF4", "FP4"];

/// The learner's four configurations, with a row before them for the noise floor, are among this many first rows.
const LEARNERS: usize = 5;

const HINTS: [&str; 3] = [
    "Which of the options is what you compare, and which have to be the same in all four rows?",
    "`precision` is `Precision::Float16` on a GPU and `Precision::Float32` on a CPU, in all four. `quantization` is \
     `None` for the baseline, `Some(QuantizationConfig::int8())`, `Some(QuantizationConfig::nf4())` and \
     `Some(QuantizationConfig::fp4())` for the others.",
    "`let (precision, baseline) = if device.is_cpu() { (Precision::Float32, \"FP32 (Baseline CPU)\") } else { \
     (Precision::Float16, \"FP16 (Baseline GPU)\") };` and for each name and quantization a `Configuration { name: \
     name.to_owned(), options: LoadOptions { precision, device, quantization, ..LoadOptions::default() } }`",
];

/// Checks `configurations(device)`.
pub fn check_configurations(yours: fn(Device) -> Vec<Configuration>) -> Score {
    let answers = DEVICES.map(|device| (device, ask(|| Ok(yours(device)))));
    let (cpu, gpus) = answers.split_at(1);
    let everywhere = |look: &dyn Fn(Device, &[Configuration]) -> Verdict| on(&answers, look);
    let quantized = |format, is_so: fn(&QuantizationConfig) -> bool| {
        everywhere(&|_, all| {
            let config = called(all, format)?;
            Complaint::unless(is_so(config), || {
                format!("the configuration called {format} is {config}: its row would show another format's numbers")
            })
        })
    };
    Score::new("configurations", HINTS)
        .point("on a CPU the baseline comes first, in float32, and says so in its name", on(cpu, &is_baseline))
        .point("on a GPU it is in float16, and says so", on(gpus, &is_baseline))
        .point(
            "there is an INT8, in 8 bits",
            quantized("INT8", |config| matches!(config.method, Method::LlmInt8 { .. } | Method::StaticInt8(_))),
        )
        .point("there is an NF4, in 4 bits of that type", quantized("NF4", |config| is_four_bit(config, FourBit::Nf4)))
        .point("there is an FP4, in 4 bits of that type", quantized("FP4", |config| is_four_bit(config, FourBit::Fp4)))
        .point("they come in this order: baseline, INT8, NF4, FP4", everywhere(&|_, all| in_order(all)))
        .point("nothing else differs", everywhere(&|_, all| alike(all)))
        .point("all four compute on the device that was asked for", everywhere(&on_device))
}

/// What the answer gave for a device.
type Given = (Device, Result<Vec<Configuration>, Complaint>);

fn on(answers: &[Given], look: &dyn Fn(Device, &[Configuration]) -> Verdict) -> Verdict {
    answers.iter().try_for_each(|(device, all)| look(*device, all.as_ref().map_err(Complaint::clone)?))
}

fn is_baseline(device: Device, all: &[Configuration]) -> Verdict {
    let (precision, digits, other) =
        if device.is_cpu() { (Precision::Float32, "32", "16") } else { (Precision::Float16, "16", "32") };
    let Some(Configuration { name, options }) = all.first() else { return Err(no_configurations()) };
    if options.quantization.is_some() {
        return wrong!(
            "the first configuration, {name:?}, is quantized; the others are compared with the baseline, so put that first"
        );
    }
    if options.precision != precision {
        let why = match precision {
            Precision::Float32 => ": a CPU would run it in float32 under that name",
            _ => "",
        };
        return wrong!("on {device} the baseline is in {}, expected {precision}{why}", options.precision);
    }
    if !name.contains(digits) || name.contains(other) {
        return wrong!(
            "on {device} the baseline computes in {precision}, but is called {name:?}; a table should say which it is"
        );
    }
    Complaint::unless(name.to_lowercase().contains("baseline"), || {
        format!("the baseline is called {name:?}; its name should contain \"Baseline\"")
    })
}

fn is_four_bit(config: &QuantizationConfig, wanted: FourBit) -> bool {
    matches!(&config.method, Method::FourBit(options) if options.quant_type == wanted)
}

fn no_configurations() -> Complaint {
    Complaint::wrong("there are no configurations")
}

fn names(all: &[Configuration]) -> Vec<&str> {
    all.iter().map(|one| one.name.as_str()).collect()
}

/// Whether a name has this format in it, ignoring case, spaces and hyphens.
fn is_called(name: &str, format: &str) -> bool {
    let plain = |text: &str| text.to_uppercase().replace(['-', ' '], "");
    plain(name).contains(&plain(format))
}

/// Whether a name has one of the lesson's formats in it.
pub(super) fn names_a_format(name: &str) -> bool {
    ["FP32", "FP16"].iter().chain(&FORMATS).any(|format| is_called(name, format))
}

/// The place of the name with this format in it, preferably one with no other format in it. `FP32` is the baseline too.
fn place(names: &[&str], format: &str) -> Option<usize> {
    let named = |name: &str| is_called(name, format) || (format == "FP32" && is_called(name, "Baseline"));
    let only = |name: &str| FORMATS.iter().all(|other| *other == format || !is_called(name, other));
    let mut all = names.iter().copied();
    all.position(|name| named(name) && only(name)).or_else(|| names.iter().copied().position(named))
}

/// The row of a format, whose name the learner chose if it is one of the four: the check takes the same names.
pub(super) fn row_of<'a, T>(rows: &'a [T], name: impl Fn(&T) -> &str, format: &str) -> Option<&'a T> {
    let names: Vec<&str> = rows.iter().map(name).collect();
    let first = &names[..names.len().min(LEARNERS)];
    rows.get(names.iter().position(|name| *name == format).or_else(|| place(first, format))?)
}

fn in_order(all: &[Configuration]) -> Verdict {
    if FORMATS.map(|format| place(&names(all), format)) != [Some(1), Some(2), Some(3)] {
        return wrong!("yours are {:?}; the tables below rely on the order", names(all));
    }
    Complaint::unless(all.len() == 4, || {
        format!("there are {} configurations, expected 4: {:?}", all.len(), names(all))
    })
}

/// The quantization of the configuration with this format in its name.
fn called<'a>(all: &'a [Configuration], format: &str) -> Result<&'a QuantizationConfig, Complaint> {
    let Some(Configuration { name, options }) = place(&names(all), format).map(|at| &all[at]) else {
        return wrong!("none of {:?} has {format} in its name", names(all));
    };
    let config = options.quantization.as_ref();
    let config =
        config.ok_or_else(|| Complaint::wrong(format!("{name:?} is not quantized: `quantization` is `None`")))?;
    config.check()?;
    Ok(config)
}

/// Whether nothing differs but the format, field by field.
fn alike(all: &[Configuration]) -> Verdict {
    let Some(baseline) = all.first() else { return Err(no_configurations()) };
    for Configuration { name, options } in all {
        let LoadOptions { precision, device, engine, quantization, .. } = options;
        if *precision != baseline.options.precision {
            return wrong!(
                "what is not quantized is {precision} in {name:?} and {} in the baseline: then two things change at \
                 once, and no difference has a single cause",
                baseline.options.precision
            );
        }
        if *engine != baseline.options.engine {
            return wrong!("{name:?} has a different `engine` from the baseline's: leave it at its default");
        }
        if engine.is_some_and(|engine| engine != Engine::for_device(options.device)) {
            return wrong!("{name:?} names an `engine` that is not {}'s: leave it at its default", options.device);
        }
        let rest = LoadOptions { precision: *precision, device: *device, engine: *engine, ..LoadOptions::default() };
        if (LoadOptions { quantization: None, ..options.clone() }) != rest {
            return wrong!(
                "{name:?} sets another field than `precision`, `device` and `quantization`: leave the others at their \
                 defaults"
            );
        }
        let Some(config) = quantization else { continue };
        if let Some((field, value)) = differs(config) {
            return wrong!(
                "{name:?} also changes `{field}`, to {value}; keep what `QuantizationConfig::int8()`, `nf4()` and \
                 `fp4()` give, which is what bitsandbytes does, or your numbers cannot be compared with anyone's"
            );
        }
    }
    Ok(())
}

/// The first setting, besides bits and type, in which a configuration differs from bitsandbytes' own, and its value.
/// Settings that the format has no use for do not count.
fn differs(config: &QuantizationConfig) -> Option<(&'static str, String)> {
    let skipped = &config.skip_modules;
    let mut settings = vec![
        ("head", config.head != Head::AsLoaded, format!("{:?}", config.head)),
        ("skip_modules", skipped.iter().flatten().any(|module| module != "lm_head"), format!("{skipped:?}")),
    ];
    match &config.method {
        Method::LlmInt8 { threshold } => settings.push(("threshold", *threshold != 6.0, threshold.to_string())),
        Method::FourBit(FourBitOptions { quant_type: _, blocksize, double_quant }) => settings.extend([
            ("blocksize", *blocksize != 64, blocksize.to_string()),
            ("double_quant", *double_quant, "true".to_owned()),
            ("compute_dtype", config.compute_dtype != Precision::Float32, config.compute_dtype.to_string()),
        ]),
        _ => settings.push(("method", true, config.to_string())),
    }
    settings.into_iter().find(|(_, differs, _)| *differs).map(|(setting, _, value)| (setting, value))
}

fn on_device(device: Device, all: &[Configuration]) -> Verdict {
    match all.iter().find(|one| one.options.device != device) {
        None if all.is_empty() => Err(no_configurations()),
        None => Ok(()),
        Some(one) => wrong!("asked for {device}, but {:?} would compute on {}", one.name, one.options.device),
    }
}

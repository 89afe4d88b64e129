//! `configurations`: the baseline and three quantized formats, which differ in nothing else.

use super::Configuration;
use crate::course::{Check, Complaint, Score, ask};
use crate::model::{Device, Precision};
use crate::quant::{FourBit, Head, QuantizationConfig};

const GPU: Device = Device::Cuda(0);

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
pub fn check_configurations(yours: impl Fn(Device) -> Vec<Configuration>) -> Score {
    let on = |device| ask(|| Ok(yours(device)));
    let (cpu, gpu) = (on(Device::Cpu), on(GPU));
    Check::new("configurations", HINTS)
        .about(&cpu, "on a CPU the baseline comes first, in float32, and is called so", |all| {
            is_baseline(all, Precision::Float32, "32")
        })
        .about(&gpu, "on a GPU it is in float16, and is called so", |all| is_baseline(all, Precision::Float16, "16"))
        .about(&cpu, "there is an INT8, in 8 bits", |all| {
            let config = called(all, "INT8")?;
            is(config, "INT8", config.load_in_8bit && !config.load_in_4bit)
        })
        .about(&cpu, "there is an NF4, in 4 bits of that type", |all| {
            let config = called(all, "NF4")?;
            is(config, "NF4", config.load_in_4bit && config.bnb_4bit_quant_type == FourBit::Nf4)
        })
        .about(&cpu, "there is an FP4, in 4 bits of that type", |all| {
            let config = called(all, "FP4")?;
            is(config, "FP4", config.load_in_4bit && config.bnb_4bit_quant_type == FourBit::Fp4)
        })
        .about(&cpu, "they come in this order: baseline, INT8, NF4, FP4", |all| in_order(all))
        .point("all else is the same: the precision of the rest, and which layers are quantized", {
            let both = [&cpu, &gpu].map(|all| all.as_ref().map_err(Complaint::clone));
            both.into_iter().try_for_each(|all| alike(all?))
        })
        .point("the device is handed on", on_device(&cpu, Device::Cpu).and_then(|()| on_device(&gpu, GPU)))
        .score()
}

fn is_baseline(all: &[Configuration], precision: Precision, digits: &str) -> Result<(), Complaint> {
    let Some(Configuration { name, options }) = all.first() else {
        return Err(Complaint::wrong("there are no configurations"));
    };
    if options.quantization.is_some() {
        return Err(Complaint::wrong(format!(
            "the first configuration, {name:?}, is quantized; the others are compared with it, so put the baseline there"
        )));
    }
    if options.precision != precision {
        let why = match precision {
            Precision::Float32 => ": a CPU would run it in float32 under that name",
            _ => "",
        };
        return Err(Complaint::wrong(format!("the baseline is {}, expected {precision}{why}", options.precision)));
    }
    Complaint::unless(name.contains(digits), || {
        format!("the baseline runs in {precision}, but is called {name:?}; a table over it should say which it is")
    })
}

/// Where the configuration with this in its name, in any case, stands.
fn place(all: &[Configuration], format: &str) -> Option<usize> {
    all.iter().position(|one| one.name.to_uppercase().replace(['-', ' '], "").contains(format))
}

fn in_order(all: &[Configuration]) -> Result<(), Complaint> {
    let places = ["INT8", "NF4", "FP4"].map(|format| place(all, format));
    if places == [Some(1), Some(2), Some(3)] {
        Ok(())
    } else {
        let names: Vec<&str> = all.iter().map(|one| one.name.as_str()).collect();
        Err(Complaint::wrong(format!("yours come as {names:?}; the tables below read them in that order")))
    }
}

/// The quantization of the configuration with this in its name.
fn called<'a>(all: &'a [Configuration], format: &str) -> Result<&'a QuantizationConfig, Complaint> {
    let Some(Configuration { name, options }) = place(all, format).map(|place| &all[place]) else {
        let names: Vec<&str> = all.iter().map(|one| one.name.as_str()).collect();
        return Err(Complaint::wrong(format!("none of {names:?} has {format} in its name")));
    };
    let config = options.quantization.as_ref();
    let config =
        config.ok_or_else(|| Complaint::wrong(format!("{name:?} is not quantized: `quantization` is `None`")))?;
    config.check()?;
    Ok(config)
}

fn is(config: &QuantizationConfig, name: &str, is_so: bool) -> Result<(), Complaint> {
    Complaint::unless(is_so, || format!("what is called {name} is {config}: its row would carry another's numbers"))
}

fn alike(all: &[Configuration]) -> Result<(), Complaint> {
    let Some(baseline) = all.first() else { return Err(Complaint::wrong("there are no configurations")) };
    for Configuration { name, options } in all {
        if options.precision != baseline.options.precision {
            return Err(Complaint::wrong(format!(
                "what is not quantized is {} in {name:?} and {} in the baseline: then two things change at once, and no \
                 difference has one cause",
                options.precision, baseline.options.precision
            )));
        }
        let Some(config) = &options.quantization else { continue };
        let skipped = config.llm_int8_skip_modules.as_deref().unwrap_or_default();
        if config.head != Head::AsLoaded {
            return Err(Complaint::wrong(format!(
                "{name:?} quantizes the head too ({config}); bitsandbytes leaves it as it is unless told otherwise, and \
                 your numbers would not compare with anyone's"
            )));
        }
        if let Some(module) = skipped.iter().find(|module| *module != "lm_head") {
            return Err(Complaint::wrong(format!("{name:?} leaves `{module}` in full precision")));
        }
        if config.bnb_4bit_blocksize != 64 {
            return Err(Complaint::wrong(format!(
                "{name:?} has blocks of {} weights; bitsandbytes takes 64 here",
                config.bnb_4bit_blocksize
            )));
        }
    }
    Ok(())
}

fn on_device(all: &Result<Vec<Configuration>, Complaint>, device: Device) -> Result<(), Complaint> {
    let all = all.as_ref().map_err(Complaint::clone)?;
    match all.iter().find(|one| one.options.device != device) {
        None if all.is_empty() => Err(Complaint::wrong("there are no configurations")),
        None => Ok(()),
        Some(one) => {
            Err(Complaint::wrong(format!("asked for {device}, {:?} would compute on {}", one.name, one.options.device)))
        }
    }
}

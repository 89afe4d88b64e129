//! `resolve_dtype`: what a device makes of a requested precision.

use quantlab::error::Result;
use quantlab::model::{Device, Precision, ResolvedDtype};

use crate::cases::DEVICES;
use crate::failures::error_of;
use crate::{Complaint, Score, Verdict, ask};

const NAMES: [&str; 3] = ["float32", "float16", "bfloat16"];

const HINTS: [&str; 3] = [
    "Which requests mean the same on every device, and which one does a CPU have no fast arithmetic for?",
    "Turn the text into a `Precision` first (`requested.parse::<Precision>()?` knows the names and returns the \
     error), then decide with a `match` on the precision and the device.",
    "`match (precision, device) { (Precision::Float16, Device::Cpu) => ..., _ => ... }`: the first arm returns \
     `Precision::Float32` with the label \"float32 (forced on CPU)\", the other one what was asked for.",
];

/// Checks `resolve_dtype(requested, device)`.
pub fn check_resolve_dtype(yours: fn(&str, Device) -> Result<ResolvedDtype>) -> Score {
    let ask = |requested: &str, device: Device| ask(|| yours(requested, device));
    let [cpu, gpus @ ..] = DEVICES;
    let are = |names: &[&str], devices: &[Device]| {
        let cases = names.iter().flat_map(|name| devices.iter().map(move |device| (*name, *device)));
        cases.into_iter().try_for_each(|(requested, device)| is_resolved(&ask, requested, device))
    };
    Score::new("resolve_dtype", HINTS)
        .point("float32 is float32 on every device", are(&["float32"], &DEVICES))
        .point("a GPU gets float16 and bfloat16 as requested", are(&["float16", "bfloat16"], &gpus))
        .point("a CPU gets float32 instead of float16", are(&["float16"], &[cpu]))
        .point("a CPU keeps bfloat16", are(&["bfloat16"], &[cpu]))
        .point("labels say what is used, and when that was forced", labels(&ask))
        .point("names are read in any case, and each precision has one label", any_case(&ask))
        .point("any other name is an error that repeats it", unknown(&ask))
}

/// # Errors
/// A request resolved to a precision other than the one in the lesson's table for that device.
fn is_resolved(ask: &Ask<'_>, requested: &str, device: Device) -> Verdict {
    let dtype = match requested.to_lowercase().as_str() {
        "bfloat16" => Precision::BFloat16,
        "float16" if !device.is_cpu() => Precision::Float16,
        _ => Precision::Float32,
    };
    let got = ask(requested, device)?.dtype;
    Complaint::unless(got == dtype, || format!("`{requested}` on {device} became {got}, not {dtype}"))
}

type Ask<'a> = dyn Fn(&str, Device) -> Result<ResolvedDtype, Complaint> + 'a;

/// # Errors
/// The label does not say what a request (a name in lower case) becomes on a device.
pub(super) fn label_fits(label: &str, requested: &str, device: Device) -> Verdict {
    if requested != "float16" || !device.is_cpu() {
        return Complaint::unless(label == requested, || {
            format!("the label of `{requested}` on {device} is {label:?}, not {requested:?}")
        });
    }
    // Any wording will do, as long as it names the precision and the device, and says that the precision was not asked
    // for.
    let lower = label.to_lowercase();
    let is_forced =
        ["forced", "float16", "fp16", "half", "fall", "fell", "instead"].iter().any(|word| lower.contains(word));
    Complaint::unless(lower.starts_with("float32") && lower.contains("cpu") && is_forced, || {
        format!(
            "float16 on a CPU runs in float32, but the label is {label:?}; a table with it would mislead: say \
             \"float32 (forced on CPU)\""
        )
    })
}

fn labels(ask: &Ask<'_>) -> Verdict {
    NAMES.into_iter().try_for_each(|requested| {
        DEVICES.into_iter().try_for_each(|device| label_fits(&ask(requested, device)?.label, requested, device))
    })
}

/// The name in capitals, with only the first letter capitalised, with only the last, and with alternating capitals.
fn spellings(name: &str) -> [String; 4] {
    let with = |capital: &dyn Fn(usize) -> bool| {
        let letter = |(at, c): (usize, char)| if capital(at) { c.to_ascii_uppercase() } else { c };
        name.chars().enumerate().map(letter).collect()
    };
    let last = name.rfind(|c: char| c.is_alphabetic()).unwrap_or(0);
    [with(&|_| true), with(&|at| at == 0), with(&|at| at == last), with(&|at| at % 2 == 1)]
}

fn any_case(ask: &Ask<'_>) -> Verdict {
    for lower in NAMES {
        for (requested, device) in spellings(lower).iter().flat_map(|name| DEVICES.map(|device| (name, device))) {
            is_resolved(ask, requested, device)?;
            let (label, usual) = (ask(requested, device)?.label, ask(lower, device)?.label);
            Complaint::unless(label == usual, || {
                format!("`{requested}` is labelled {label:?} and `{lower}` {usual:?}: two names for one thing")
            })?;
        }
    }
    Ok(())
}

/// Names that have something in common with the three, or nothing.
const UNKNOWN: [&str; 15] = [
    "float7",
    "float160",
    "xfloat16",
    "bfloat",
    "bfloat160",
    "bfloat32",
    "float32x",
    "float64",
    "float8",
    "int8",
    "float",
    "16",
    "float 16",
    "float32,float16",
    "",
];

fn unknown(ask: &Ask<'_>) -> Verdict {
    for (name, device) in UNKNOWN.into_iter().flat_map(|name| DEVICES.map(|device| (name, device))) {
        let message = error_of(ask(name, device), |resolved| {
            format!("{name:?} is not one of the three precisions, but it became {} on {device}", resolved.dtype)
        })?;
        Complaint::unless(message.contains(name), || {
            format!("the error does not repeat the name {name:?}: {message}")
        })?;
    }
    Ok(())
}

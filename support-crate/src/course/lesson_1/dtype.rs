//! `resolve_dtype`: what a device makes of a requested precision.

use crate::course::{Check, Complaint, Score, ask};
use crate::error::Result;
use crate::model::{Device, Precision, ResolvedDtype};

const CPU: Device = Device::Cpu;
const GPU: Device = Device::Cuda(0);
const OTHER_GPU: Device = Device::Cuda(1);

const HINTS: [&str; 3] = [
    "Which requests mean the same on every device, and which one does a CPU have no fast arithmetic for?",
    "Turn the text into a `Precision` first (`requested.parse::<Precision>()?` knows the names and returns the \
     error), then decide with a `match` on the precision and the device.",
    "`match (precision, device) { (Precision::Float16, Device::Cpu) => ..., _ => ... }`: the first arm returns \
     `Precision::Float32` with the label \"float32 (forced on CPU)\", the other one what was asked for.",
];

/// Checks `resolve_dtype(requested, device)`.
pub fn check_resolve_dtype(yours: impl Fn(&str, Device) -> Result<ResolvedDtype>) -> Score {
    use Precision::{BFloat16, Float16, Float32};
    let ask = |requested: &str, device: Device| ask(|| yours(requested, device));
    let are = |cases: &[(&str, Device, Precision)]| {
        cases.iter().try_for_each(|&(requested, device, dtype)| {
            let got = ask(requested, device)?.dtype;
            Complaint::unless(got == dtype, || format!("`{requested}` on {device} became {got}, not {dtype}"))
        })
    };
    Check::new("resolve_dtype", HINTS)
        .point("float32 is float32 on every device", {
            are(&[("float32", CPU, Float32), ("float32", GPU, Float32), ("float32", OTHER_GPU, Float32)])
        })
        .point("a GPU gets float16 and bfloat16 as requested", {
            are(&[
                ("float16", GPU, Float16),
                ("bfloat16", GPU, BFloat16),
                ("float16", OTHER_GPU, Float16),
                ("bfloat16", OTHER_GPU, BFloat16),
            ])
        })
        .point("a CPU gets float32 instead of float16", are(&[("float16", CPU, Float32)]))
        .point("a CPU keeps bfloat16", are(&[("bfloat16", CPU, BFloat16)]))
        .point("labels say what is used, and when that was forced", labels(&ask))
        .point("names are read in any case, and each precision has one label", {
            are(&[("Float16", GPU, Float16), ("FLOAT16", CPU, Float32), ("BFloat16", CPU, BFloat16)])
                .and_then(|()| any_case(&ask))
        })
        .point("any other name is an error that repeats it", unknown(&ask))
        .score()
}

type Ask<'a> = dyn Fn(&str, Device) -> Result<ResolvedDtype, Complaint> + 'a;

/// # Errors
/// The label does not say what a request (a name in lower case) becomes on a device.
pub(super) fn label_fits(label: &str, requested: &str, device: Device) -> Result<(), Complaint> {
    if requested != "float16" || !device.is_cpu() {
        return Complaint::unless(label == requested, || {
            format!("the label of `{requested}` on {device} is {label:?}, not {requested:?}")
        });
    }
    // The words are free, as long as they name the precision, the device, and that it was not asked for.
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

fn labels(ask: &Ask<'_>) -> Result<(), Complaint> {
    for requested in ["float32", "float16", "bfloat16"] {
        for device in [CPU, GPU, OTHER_GPU] {
            label_fits(&ask(requested, device)?.label, requested, device)?;
        }
    }
    Ok(())
}

fn any_case(ask: &Ask<'_>) -> Result<(), Complaint> {
    for (requested, device) in [("FLOAT32", CPU), ("Float16", CPU), ("Float16", GPU), ("BFloat16", CPU)] {
        let (label, lower) = (ask(requested, device)?.label, requested.to_lowercase());
        let usual = ask(&lower, device)?.label;
        Complaint::unless(label == usual, || {
            format!("`{requested}` is labelled {label:?} and `{lower}` {usual:?}: two names for one thing")
        })?;
    }
    Ok(())
}

fn unknown(ask: &Ask<'_>) -> Result<(), Complaint> {
    for (name, device) in
        [("float7", CPU), ("float7", GPU), ("float160", CPU), ("int8", CPU), ("float", GPU), ("", CPU)]
    {
        match ask(name, device) {
            Ok(resolved) => {
                return wrong!(
                    "{name:?} is not one of the three precisions, but it became {} on {device}",
                    resolved.dtype
                );
            }
            Err(Complaint::Failed(message)) if message.contains(name) => {}
            Err(Complaint::Failed(message)) => {
                return wrong!("the error does not repeat the name {name:?}: {message}");
            }
            Err(complaint) => return Err(complaint),
        }
    }
    Ok(())
}

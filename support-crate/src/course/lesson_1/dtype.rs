//! `resolve_dtype`: what a device makes of a requested precision.

use crate::course::{Check, Complaint, Score, ask};
use crate::error::Result;
use crate::model::{Device, Precision, ResolvedDtype};

const GPU: Device = Device::Cuda(0);

const HINTS: [&str; 3] = [
    "Which requests mean the same on every device, and which one does a CPU not have fast arithmetic for?",
    "Turn the text into a `Precision` first (`requested.parse::<Precision>()?` knows the names and their errors), \
     then decide with a `match` on the precision and the device.",
    "`match (precision, device) { (Precision::Float16, Device::Cpu) => ..., _ => ... }`: the first arm returns \
     `Precision::Float32` with the label \"float32 (forced on CPU)\", the other what was asked for.",
];

/// Checks `resolve_dtype(requested, device)`.
pub fn check_resolve_dtype(yours: impl Fn(&str, Device) -> Result<ResolvedDtype>) -> Score {
    let ask = |requested: &str, device: Device| ask(|| yours(requested, device));
    let is = |requested: &str, device: Device, dtype: Precision| {
        let got = ask(requested, device)?.dtype;
        Complaint::unless(got == dtype, || format!("`{requested}` on {device} became {got}, not {dtype}"))
    };
    let cpu = Device::Cpu;
    Check::new("resolve_dtype", HINTS)
        .point("float32 is float32 on every device", {
            is("float32", cpu, Precision::Float32).and_then(|()| is("float32", GPU, Precision::Float32))
        })
        .point("a GPU gets float16 and bfloat16 as asked for", {
            is("float16", GPU, Precision::Float16).and_then(|()| is("bfloat16", GPU, Precision::BFloat16))
        })
        .point("a CPU gets float32 in place of float16", is("float16", cpu, Precision::Float32))
        .point("a CPU keeps bfloat16", is("bfloat16", cpu, Precision::BFloat16))
        .point("labels say what is used, and when that was forced", labels(&ask))
        .point("names are read in any case, and labels written in one", {
            is("Float16", GPU, Precision::Float16).and_then(|()| match ask("FLOAT32", cpu)?.label.as_str() {
                "float32" => Ok(()),
                label => Err(Complaint::wrong(format!("`FLOAT32` is labelled {label:?}: two names for one thing"))),
            })
        })
        .point("another name is an error that repeats it", unknown(&ask))
        .score()
}

type Ask<'a> = dyn Fn(&str, Device) -> Result<ResolvedDtype, Complaint> + 'a;

fn labels(ask: &Ask<'_>) -> Result<(), Complaint> {
    for (requested, device) in [("float32", Device::Cpu), ("float16", GPU), ("bfloat16", Device::Cpu)] {
        let label = ask(requested, device)?.label;
        if label != requested {
            return Err(Complaint::wrong(format!("the label of `{requested}` on {device} is {label:?}")));
        }
    }
    let label = ask("float16", Device::Cpu)?.label.to_lowercase();
    if label.starts_with("float32") && label.contains("cpu") {
        return Ok(());
    }
    Err(Complaint::wrong(format!(
        "float16 on a CPU runs in float32, but the label says {label:?}; a table over it would mislead: say \
         \"float32 (forced on CPU)\""
    )))
}

fn unknown(ask: &Ask<'_>) -> Result<(), Complaint> {
    match ask("float7", Device::Cpu) {
        Ok(resolved) => Err(Complaint::wrong(format!("`float7` is no precision, but it became {}", resolved.dtype))),
        Err(Complaint::Failed(message)) if message.contains("float7") => Ok(()),
        Err(Complaint::Failed(message)) => {
            Err(Complaint::wrong(format!("the error does not repeat the name `float7`: {message}")))
        }
        Err(complaint) => Err(complaint),
    }
}

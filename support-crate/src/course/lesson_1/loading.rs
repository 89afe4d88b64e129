//! `load_model_and_tokenizer`: the first candidate that loads, whole.

use crate::course::probe::{Costs, Machine, ProbeHub, Stock};
use crate::course::{Check, Complaint, Score, ask};
use crate::error::Result;
use crate::model::{Device, Loaded, ModelHub, Precision};

const HINTS: [&str; 3] = [
    "What has to happen for a candidate before you can call it loaded, and where does the loop go on if one of \
     these steps fails?",
    "Write a small function that loads one candidate (tokenizer and model from the same id) and returns a \
     `Result`; the loop returns the first `Ok` and keeps the reasons of the others.",
    "`for &id in candidates { match load_one(hub, id, ...) { Ok(loaded) => return Ok(loaded), Err(error) => \
     reasons.push(format!(\"{id}: {error}\")) } }`, and after the loop an `Error::source` with all reasons.",
];

/// Checks `load_model_and_tokenizer(hub, candidates, requested, device)`.
pub fn check_load_model_and_tokenizer(yours: impl Fn(&dyn ModelHub, &[&str], &str, Device) -> Result<Loaded>) -> Score {
    let machine = Machine::new(Costs::default());
    let stock = [("lab/broken", Stock::WithoutWeights), ("lab/whole", Stock::Whole), ("lab/other", Stock::Whole)];
    let hub = ProbeHub::new(&machine, &stock);
    let load = |candidates: &[&str], requested: &str, device| ask(|| yours(&hub, candidates, requested, device));
    let first = load(&["lab/missing", "lab/whole", "lab/other"], "float32", Device::Cpu);
    let asked_first = hub.models_asked();
    let after_broken = load(&["lab/broken", "lab/other"], "float32", Device::Cpu);
    let before = hub.models_asked().len();
    let half = load(&["lab/whole"], "float16", Device::Cpu);
    let asked_half = hub.models_asked().split_off(before);
    Check::new("load_model_and_tokenizer", HINTS)
        .about(&first, "takes the first candidate that is there, and says which", |loaded| {
            is_called(loaded, "lab/whole")
        })
        .about(&after_broken, "goes on when a candidate's weights cannot be read", |loaded| {
            is_called(loaded, "lab/other")
        })
        .about(&after_broken, "tokenizer and model come from the same id", |loaded| {
            let owner = hub.owner_of(&loaded.tokenizer)?.unwrap_or_else(|| "somewhere else".to_owned());
            Complaint::unless(owner == "lab/other", || {
                format!("the model is lab/other's, the tokenizer {owner}'s: text and ids would not fit each other")
            })
        })
        .about(&first, "stops at the first that loads", |_| {
            Complaint::unless(
                !asked_first.iter().any(|(id, _)| id == "lab/other"),
                || "lab/whole had loaded, and still lab/other was loaded too",
            )
        })
        .about(&half, "asks for the precision that the device can use, and keeps its label", |loaded| {
            if let Some((_, options)) = asked_half.iter().find(|(_, options)| options.precision != Precision::Float32) {
                return Err(Complaint::wrong(format!(
                    "float16 on a CPU was loaded as {}; resolve the precision first",
                    options.precision
                )));
            }
            match loaded.dtype_label.to_lowercase() {
                label if label.starts_with("float32") && label.contains("cpu") => Ok(()),
                label => Err(Complaint::wrong(format!("float16 on a CPU is labelled {label:?}"))),
            }
        })
        .point("hands the device on", on_the_gpu(&hub, &yours))
        .point("when all fail, one error lists each id", all_fail(&load))
        .score()
}

fn is_called(loaded: &Loaded, model_id: &str) -> Result<(), Complaint> {
    Complaint::unless(loaded.model_id == model_id, || format!("`model_id` is {:?}, not {model_id:?}", loaded.model_id))
}

fn on_the_gpu(
    hub: &ProbeHub,
    yours: &impl Fn(&dyn ModelHub, &[&str], &str, Device) -> Result<Loaded>,
) -> Result<(), Complaint> {
    let loaded = ask(|| yours(hub, &["lab/whole"], "float32", Device::Cuda(0)))?;
    match loaded.model.info().device {
        Device::Cuda(0) => Ok(()),
        other => Err(Complaint::wrong(format!("asked for cuda:0, the model is on {other}"))),
    }
}

fn all_fail(load: &impl Fn(&[&str], &str, Device) -> Result<Loaded, Complaint>) -> Result<(), Complaint> {
    let ids = ["lab/missing", "lab/broken"];
    match load(&ids, "float32", Device::Cpu) {
        Ok(loaded) => Err(Complaint::wrong(format!("nothing can be loaded, yet you returned {}", loaded.model_id))),
        Err(Complaint::Failed(message)) => match ids.iter().find(|&&id| !message.contains(id)) {
            None => Ok(()),
            Some(id) => Err(Complaint::wrong(format!("the error does not name {id}: {message}"))),
        },
        Err(complaint) => Err(complaint),
    }
}

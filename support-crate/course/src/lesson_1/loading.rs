//! `load_model_and_tokenizer`: the first candidate that loads, whole.

use rand::Rng;
use rand::seq::IndexedRandom;

use quantlab::error::Result;
use quantlab::generate::{GenerateOptions, generate_tokens};
use quantlab::model::{Device, Engine, LoadOptions, Loaded, ModelHub, Precision, resolve_dtype};

use super::dtype::label_fits;
use crate::cases::random;
use crate::failures::{error_of, must_succeed};
use crate::probe::{Costs, Machine, ProbeHub, Stock};
use crate::{Complaint, Score, Verdict, ask};

const HINTS: [&str; 3] = [
    "What has to happen for a candidate before you can call it loaded, and where does the loop go on if one of \
     these steps fails?",
    "Write a small function that loads one candidate (tokenizer and model from the same id) and returns a \
     `Result`; the loop returns the first `Ok` and keeps the reasons of the others.",
    "`for &id in candidates { match load_one(id) { Ok(loaded) => return Ok(loaded), Err(error) => \
     reasons.push(format!(\"{id}: {error}\")) } }`, and after the loop an `Error::source` with all reasons.",
];

type Answer<'a> = dyn Fn(&dyn ModelHub, &[&str], &str, Device) -> Result<Loaded> + 'a;

/// Names that contain each other, as those of real models do.
const STOCK: [(&str, Stock); 10] = [
    ("lab/broken", Stock::WithoutWeights),
    ("lab/broken-too", Stock::WithoutTokenizer),
    ("lab/unfit", Stock::Unfit),
    ("lab/float32-only", Stock::Float32Only),
    ("lab/whole", Stock::Whole),
    ("lab/whole-large", Stock::Whole),
    ("lab/other", Stock::Whole),
    // Nobody asks for these.
    ("embedded", Stock::Whole),
    ("openai-community/gpt2", Stock::Whole),
    ("random:gpt2", Stock::Whole),
];

/// How many of them are candidates.
const CANDIDATES: usize = 7;

/// Checks `load_model_and_tokenizer(hub, candidates, requested, device)`.
pub fn check_load_model_and_tokenizer(yours: fn(&dyn ModelHub, &[&str], &str, Device) -> Result<Loaded>) -> Score {
    let attempt = |candidates: &[&str], requested: &str, device| Attempt::of(&yours, candidates, requested, device);
    let cpu = |candidates: &[&str]| {
        must_succeed(attempt(candidates, "float32", Device::Cpu), |message| {
            format!("not all of {candidates:?} fail, but you returned an error: {message}")
        })
    };
    let first = cpu(&["lab/missing", "lab/whole-large", "lab/whole", "lab/other"]);
    let without_weights = cpu(&["lab/broken", "lab/other", "lab/whole"]);
    let without_tokenizer = cpu(&["lab/broken-too", "lab/unfit", "lab/whole"]);
    let both = without_weights.and_then(|weights| Ok((weights, without_tokenizer?)));
    Score::new("load_model_and_tokenizer", HINTS)
        .about(&first, "takes the first candidate that exists, and says which", |it| it.is_called("lab/whole-large"))
        .about(
            &both,
            "goes on to the next when a candidate's halves are missing or do not match",
            |(weights, tokenizer)| {
                weights.is_called("lab/other")?;
                tokenizer.is_called("lab/whole")?;
                any_candidates(&attempt)
            },
        )
        .about(&both, "tokenizer and model come from the same id", |(weights, tokenizer)| {
            weights.is_of_one_piece("lab/other")?;
            tokenizer.is_of_one_piece("lab/whole")
        })
        .about(&first, "stops at the first that loads", |it| {
            let later = it.hub.models_asked().into_iter().find(|(id, _)| id == "lab/whole" || id == "lab/other");
            later.map_or(Ok(()), |(id, _)| wrong!("lab/whole-large had loaded, and yet {id} was loaded too"))
        })
        .point("loads in the precision that the device can use, with its label", {
            let cases = [
                ("float16", Device::Cpu, Precision::Float32),
                ("bfloat16", Device::Cpu, Precision::BFloat16),
                ("float16", Device::Cuda(0), Precision::Float16),
                ("float32", Device::Cuda(0), Precision::Float32),
            ];
            cases.into_iter().try_for_each(|(requested, device, precision)| {
                attempt(&["lab/whole"], requested, device)?.is_loaded_in(precision, requested, device)
            })
        })
        .point("passes the device on", {
            [Device::Cuda(0), Device::Cpu, Device::Cuda(1)].into_iter().try_for_each(|device| {
                let on = attempt(&["lab/whole"], "bfloat16", device)?.loaded.model.info().device;
                Complaint::unless(on == device, || format!("asked for {device}, but the model is on {on}"))
            })
        })
        .point(
            "when nothing can be loaded, one error lists each id; an unknown precision is an error at once",
            nothing_loads(&attempt).and_then(|()| refuses_precisions(&yours)),
        )
}

/// A call that loaded something, with the hub that it loaded from.
struct Attempt {
    machine: Machine,
    hub: ProbeHub,
    loaded: Loaded,
}

impl Attempt {
    fn of(yours: &Answer<'_>, candidates: &[&str], requested: &str, device: Device) -> Result<Self, Complaint> {
        let machine = Machine::new(Costs::PLAIN);
        let hub = ProbeHub::new(&machine, &STOCK);
        let loaded = ask(|| yours(&hub, candidates, requested, device))?;
        Ok(Self { machine, hub, loaded })
    }

    fn is_called(&self, model_id: &str) -> Verdict {
        let called = &self.loaded.model_id;
        Complaint::unless(called == model_id, || format!("`model_id` is {called:?}, not {model_id:?}"))
    }

    /// The id and the options that the model was loaded by: what a forward pass tells.
    fn model(&self) -> Result<(String, LoadOptions), Complaint> {
        let options = GenerateOptions { max_new_tokens: 1, ..GenerateOptions::default() };
        generate_tokens(&*self.loaded.model, &[vec![1]], &options, &mut |_, _| ())?;
        let number = self.machine.passes().last().map(|pass| pass.model);
        let loaded = number.and_then(|number| self.hub.models_loaded().into_iter().nth(number));
        loaded.ok_or_else(|| Complaint::wrong("the model is not one of the hub's"))
    }

    fn is_of_one_piece(&self, id: &str) -> Verdict {
        let (model, _) = self.model()?;
        Complaint::unless(model == id, || format!("`model_id` is {id:?}, but the model is {model}'s"))?;
        let owner = self.hub.owner_of(&self.loaded.tokenizer)?.unwrap_or_else(|| "another hub".to_owned());
        Complaint::unless(owner == id, || {
            format!("the model is {id}'s, but the tokenizer is {owner}'s: text and ids would not match")
        })
    }

    fn is_loaded_in(&self, precision: Precision, requested: &str, device: Device) -> Verdict {
        let (_, options) = self.model()?;
        Complaint::unless(options.precision == precision, || {
            format!("{requested} on {device} was loaded as {}; resolve the precision first", options.precision)
        })?;
        Complaint::unless(is_plain(&options, device), || {
            format!(
                "more than the precision and the device was set; leave the rest to `LoadOptions::default()`: \
                 {options:?}"
            )
        })?;
        label_fits(&self.loaded.dtype_label, requested, device)
    }
}

/// Whether nothing but precision and device was set.
pub(super) fn is_plain(options: &LoadOptions, device: Device) -> bool {
    options.engine.is_none_or(|engine| engine == Engine::for_device(device)) && options.quantization.is_none()
}

/// Lists of candidates of any length and order, some of which come twice, in any precision, on any device.
fn any_candidates(attempt: &impl Fn(&[&str], &str, Device) -> Result<Attempt, Complaint>) -> Verdict {
    let mut rng = random(11);
    let ids: Vec<&str> = STOCK[..CANDIDATES].iter().map(|(id, _)| *id).chain(["lab/missing"]).collect();
    for _ in 0..40 {
        let candidates: Vec<&str> = (0..rng.random_range(1..8)).filter_map(|_| ids.choose(&mut rng).copied()).collect();
        let requested = ["float32", "bfloat16", "float16", "Float16"][rng.random_range(0..4)];
        let device = [Device::Cpu, Device::Cuda(0), Device::Cuda(2)][rng.random_range(0..3)];
        let is_float32 = resolve_dtype(requested, device)?.dtype == Precision::Float32;
        let loads = |id: &&str| {
            STOCK.contains(&(*id, Stock::Whole)) || (is_float32 && STOCK.contains(&(*id, Stock::Float32Only)))
        };
        let got = attempt(&candidates, requested, device);
        let Some(first) = candidates.iter().copied().find(loads) else {
            names_each(&candidates, &refusal(got, "nothing can be loaded")?)?;
            continue;
        };
        let it = must_succeed(got, |message| {
            format!(
                "of {candidates:?}, {first} can be loaded in {requested} on {device}, but you returned an error: \
                 {message}"
            )
        })?;
        it.is_called(first)?;
        it.is_of_one_piece(first)?;
    }
    Ok(())
}

fn names_each(ids: &[&str], message: &str) -> Verdict {
    let missing = ids.iter().find(|&&id| !names(message, id));
    missing.map_or(Ok(()), |id| wrong!("the error does not name {id}: {message}"))
}

fn nothing_loads(attempt: &impl Fn(&[&str], &str, Device) -> Result<Attempt, Complaint>) -> Verdict {
    let ids =
        ["lab/broken", "lab/missing", "lab/broken-too", "lab/unfit", "lab/gone", "lab/missing-too", "lab/gone-too"];
    let message = refusal(attempt(&ids, "float32", Device::Cpu), "nothing can be loaded")?;
    names_each(&ids, &message)?;
    refusal(attempt(&[], "float32", Device::Cpu), "there are no candidates").map(drop)
}

/// Before anything is fetched.
fn refuses_precisions(yours: &Answer<'_>) -> Verdict {
    for candidates in [&["lab/whole"][..], &["lab/missing", "lab/whole"]] {
        let hub = ProbeHub::new(&Machine::new(Costs::PLAIN), &STOCK);
        let got = ask(|| yours(&hub, candidates, "float7", Device::Cpu));
        let message =
            error_of(got, |loaded| format!("`float7` is not a precision, but you returned {}", loaded.model_id))?;
        Complaint::unless(message.contains("float7"), || {
            format!("`float7` is not a precision, but your error does not say so: {message}")
        })?;
        let asked = hub.ids_asked();
        Complaint::unless(asked.is_empty(), || {
            format!(
                "`float7` is not a precision for any model, and yet {} was fetched: resolve the precision before you \
                 ask the hub for anything",
                asked[0]
            )
        })?;
    }
    Ok(())
}

fn refusal(attempt: Result<Attempt, Complaint>, why: &str) -> Result<String, Complaint> {
    error_of(attempt, |it| format!("{why}, but you returned {}", it.loaded.model_id))
}

/// Whether a text names the id, and not only a longer one that begins with it.
fn names(text: &str, id: &str) -> bool {
    let goes_on = |rest: &str| rest.starts_with(|next: char| next.is_alphanumeric() || next == '-' || next == '_');
    text.match_indices(id).any(|(place, _)| !goes_on(&text[place + id.len()..]))
}

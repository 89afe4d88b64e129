//! The two sweeps: one thing changes from row to row, everything else stays.

use super::{LengthRun, PrecisionRun};
use crate::course::probe::{Costs, Event, Machine, ProbeHub, Stock};
use crate::course::{Check, Complaint, Score, ask};
use crate::error::Result;
use crate::measure::{Clock, Runs};
use crate::model::{Device, Loaded, ModelHub, Precision};

const NEW_TOKENS: usize = 6;
const REPEATS: usize = 3;

const LENGTH_HINTS: [&str; 3] = [
    "What must stay the same from row to row, so that whatever changes is due to the prompt alone?",
    "`prompt_of_tokens(loaded, base, target)?` repeats a sentence until its tokenized length reaches the target; its \
     `tokens` is the length that belongs on the x axis.",
    "`for &target in target_lengths { let prompt = prompt_of_tokens(...)?; let runs = repeat(repeats, || \
     time_generate(clock, loaded, &prompt.text, max_new_tokens, true))?; rows.push(LengthRun { prompt_tokens: \
     prompt.tokens, runs }); }`",
];

const PRECISION_HINTS: [&str; 3] = [
    "Which label belongs to a row: what was asked for, or what was used?",
    "Load the model once for each precision (`load_model_and_tokenizer` resolves the precision and keeps the label), \
     then time each with the same prompt and the same number of tokens.",
    "`for &requested in precisions { let loaded = load_model_and_tokenizer(hub, &[model_id], requested, device)?; \
     let runs = repeat(repeats, || time_generate(clock, &loaded, prompt, max_new_tokens, true))?; \
     rows.push(PrecisionRun { label: loaded.dtype_label.clone(), runs }); }`",
];

/// Checks `run_for_varied_lengths(clock, loaded, target_lengths, max_new_tokens, repeats)`.
pub fn check_run_for_varied_lengths(
    yours: impl Fn(&dyn Clock, &Loaded, &[usize], usize, usize) -> Result<Vec<LengthRun>>,
) -> Score {
    let targets = [8, 40, 90];
    let machine = Machine::new(Costs::default());
    let loaded = machine.loaded(|model| model).map_err(Complaint::from);
    let rows = loaded.and_then(|loaded| {
        let rows = ask(|| yours(&machine.clock(), &loaded, &targets, NEW_TOKENS, REPEATS))?;
        if rows.len() == targets.len() {
            Ok(rows)
        } else {
            Err(Complaint::wrong(format!("{} lengths were asked for, {} came back", targets.len(), rows.len())))
        }
    });
    let runs = rows.as_ref().map(|rows| rows.iter().map(|row| row.runs.clone()).collect::<Vec<_>>());
    let runs = runs.map_err(Complaint::clone);
    Check::new("run_for_varied_lengths", LENGTH_HINTS)
        .about(&rows, "a row for each target length, in order, each long enough", |rows| long_enough(rows, &targets))
        .about(&rows, "lengths are counted in tokens", |rows| in_tokens(rows, &machine))
        .about(&runs, "the same number of new tokens in every row", |runs| same_new_tokens(runs))
        .about(&runs, "every row is repeated as often as told", |runs| repeated(runs))
        .about(&rows, "every row has the time of its own prompt", |rows| {
            rows.iter().try_for_each(|row| time_fits(&row.runs, row.prompt_tokens))
        })
        .score()
}

/// Checks `run_varied_precision(clock, hub, model_id, device, precisions, prompt, max_new_tokens, repeats)`.
pub fn check_run_varied_precision(
    yours: impl Fn(&dyn Clock, &dyn ModelHub, &str, Device, &[&str], &str, usize, usize) -> Result<Vec<PrecisionRun>>,
) -> Score {
    let precisions = ["float32", "float16", "bfloat16"];
    let machine = Machine::new(Costs::default());
    let hub = ProbeHub::new(&machine, &[("lab/whole", Stock::Whole)]);
    let prompt = "The quick brown fox jumps over the lazy dog.";
    let clock = machine.clock();
    let rows = ask(|| yours(&clock, &hub, "lab/whole", Device::Cpu, &precisions, prompt, NEW_TOKENS, REPEATS));
    let rows = rows.and_then(|rows| {
        if rows.len() == precisions.len() {
            Ok(rows)
        } else {
            Err(Complaint::wrong(format!("{} precisions were asked for, {} came back", precisions.len(), rows.len())))
        }
    });
    let runs = rows.as_ref().map(|rows| rows.iter().map(|row| row.runs.clone()).collect::<Vec<_>>());
    let runs = runs.map_err(Complaint::clone);
    Check::new("run_varied_precision", PRECISION_HINTS)
        .about(&rows, "a row for each precision, labelled with what was used", |rows| labels(rows))
        .about(&rows, "the model is loaded in each precision", |_| {
            let loaded: Vec<_> = hub.models_asked().into_iter().map(|(_, options)| options.precision).collect();
            match [Precision::Float32, Precision::BFloat16].iter().find(|wanted| !loaded.contains(wanted)) {
                None => Ok(()),
                Some(missing) => Err(Complaint::wrong(format!("no model was loaded in {missing}"))),
            }
        })
        .about(&rows, "the same prompt in every row", |_| same_prompt(&machine))
        .about(&runs, "the same number of new tokens in every row", |runs| same_new_tokens(runs))
        .about(&runs, "every row is repeated as often as told", |runs| repeated(runs))
        .score()
}

fn long_enough(rows: &[LengthRun], targets: &[usize]) -> Result<(), Complaint> {
    for (row, &target) in rows.iter().zip(targets) {
        if row.prompt_tokens < target {
            return Err(Complaint::wrong(format!(
                "a prompt of {target} tokens was asked for, yours has {}: repeat until the tokenized length is reached",
                row.prompt_tokens
            )));
        }
        if row.prompt_tokens > target + 64 {
            return Err(Complaint::wrong(format!(
                "a prompt of {target} tokens was asked for, yours has {}: that is far beyond. Is the target counted in \
                 characters, or the sentence long?",
                row.prompt_tokens
            )));
        }
    }
    Ok(())
}

/// Lengths of the prompts that the model was given, each once, in order.
fn prompts_read(machine: &Machine) -> Vec<usize> {
    let mut lengths: Vec<usize> = Vec::new();
    for event in machine.forwards() {
        if let Event::Forward { seq_len, past_len: 0, .. } = event
            && lengths.last() != Some(&seq_len)
        {
            lengths.push(seq_len);
        }
    }
    lengths
}

fn in_tokens(rows: &[LengthRun], machine: &Machine) -> Result<(), Complaint> {
    let read = prompts_read(machine);
    match rows.iter().find(|row| !read.contains(&row.prompt_tokens)) {
        None => Ok(()),
        Some(row) => Err(Complaint::wrong(format!(
            "a row says {} tokens, but the model read prompts of {read:?} tokens: is that a number of characters or words?",
            row.prompt_tokens
        ))),
    }
}

fn same_new_tokens(rows: &[Runs]) -> Result<(), Complaint> {
    let counts: Vec<usize> = rows.iter().flat_map(|row| &row.runs).map(|run| run.tokens_generated).collect();
    match counts.iter().find(|&&count| count != NEW_TOKENS) {
        None => Ok(()),
        Some(_) if counts.iter().any(|&count| count != counts[0]) => Err(Complaint::wrong(format!(
            "`max_new_tokens` was {NEW_TOKENS} for the whole sweep, your rows generated {counts:?} tokens: then a row is \
             slow because it makes more tokens, and the sweep shows nothing"
        ))),
        Some(count) => {
            Err(Complaint::wrong(format!("`max_new_tokens` was {NEW_TOKENS}, your rows generated {count} tokens")))
        }
    }
}

fn repeated(rows: &[Runs]) -> Result<(), Complaint> {
    match rows.iter().find(|row| row.runs.len() != REPEATS) {
        None => Ok(()),
        Some(row) => Err(Complaint::wrong(format!("`repeats` was {REPEATS}, a row has {} runs", row.runs.len()))),
    }
}

/// The probe's costs are known: a step for each new token, and a little for each token read.
fn time_fits(runs: &Runs, prompt_tokens: usize) -> Result<(), Complaint> {
    let Costs { step, token, .. } = Costs::default();
    for run in &runs.runs {
        let expected = step * run.tokens_generated as f64
            + token * (prompt_tokens + run.tokens_generated).saturating_sub(1) as f64;
        if (run.total_latency_s - expected).abs() > 1e-6 {
            return Err(Complaint::wrong(format!(
                "a run after a prompt of {prompt_tokens} tokens takes {expected:.2} s on this machine, yours says {:.2} s: \
                 is it another prompt's time, or does more than one run lie between the readings of the clock?",
                run.total_latency_s
            )));
        }
    }
    Ok(())
}

fn labels(rows: &[PrecisionRun]) -> Result<(), Complaint> {
    let labels: Vec<String> = rows.iter().map(|row| row.label.to_lowercase()).collect();
    let (plain, forced, half) = (&labels[0], &labels[1], &labels[2]);
    if !plain.contains("float32") || plain.contains("cpu") || !half.contains("bfloat16") {
        return Err(Complaint::wrong(format!("the rows for float32 and bfloat16 are labelled {plain:?} and {half:?}")));
    }
    if !(forced.contains("float32") && forced.contains("cpu")) {
        return Err(Complaint::wrong(format!(
            "float16 on a CPU runs in float32; your row for it is labelled {forced:?}: use the label of what was loaded"
        )));
    }
    Ok(())
}

fn same_prompt(machine: &Machine) -> Result<(), Complaint> {
    match prompts_read(machine).as_slice() {
        [] => Err(Complaint::wrong("the models were not run")),
        [_] => Ok(()),
        several => Err(Complaint::wrong(format!(
            "the rows read prompts of {several:?} tokens: with another prompt, a difference is not the precision's alone"
        ))),
    }
}

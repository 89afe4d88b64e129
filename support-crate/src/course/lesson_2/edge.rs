//! `probe_edge_prompts`: prompts that are not like the others.

use super::EdgeRun;
use super::expected::{Counted, costs, honest, lengths, model_on, rates_fit, repeated, same, seconds};
use crate::course::probe::Machine;
use crate::course::{Check, Complaint, Score, ask};
use crate::error::Result;
use crate::generate::GenerateOptions;
use crate::measure::Clock;
use crate::model::Loaded;

const NEW_TOKENS: usize = 6;
const REPEATS: usize = 2;
const LONG_CONTEXT: usize = 1024;
const SHORT_CONTEXT: usize = 160;

const HINTS: [&str; 3] = [
    "What is the longest prompt that still leaves room for the new tokens, and where does a model say how long its \
     context is?",
    "`loaded.model.info().context_len` is the context; `prompt_of_tokens(loaded, base, context_len / 2)?` makes a long \
     prompt that fits. Time all prompts in the same way, with the same `max_new_tokens`.",
    "After timing, compare each row's `runs.throughput.median` with the median of all rows: where it is more than a \
     fifth away, write what you see and why (a long prompt: prefill) into `note`, else leave it empty.",
];

/// Checks `probe_edge_prompts(clock, loaded, max_new_tokens, repeats)`.
pub fn check_probe_edge_prompts(yours: impl Fn(&dyn Clock, &Loaded, usize, usize) -> Result<Vec<EdgeRun>>) -> Score {
    let run = |context_len| {
        let machine = Machine::new(costs());
        let loaded = model_on(&machine, context_len)?;
        ask(|| yours(&machine.clock(), &loaded, NEW_TOKENS, REPEATS))
    };
    let rows = run(LONG_CONTEXT);
    let cramped = run(SHORT_CONTEXT);
    Check::new("probe_edge_prompts", HINTS)
        .about(&rows, "very short, very long, multi-line and repetitive prompts", |rows| kinds(rows, LONG_CONTEXT))
        .point("the long prompt fits the model's context, however long that is", fits(&cramped))
        .about(&rows, "the length of a prompt is counted in tokens", |rows| {
            for row in rows {
                let n = lengths(&[&row.prompt])?[0];
                if row.prompt_tokens != n {
                    return Err(Complaint::wrong(format!(
                        "the {} prompt has {n} tokens, the row says {}",
                        row.name, row.prompt_tokens
                    )));
                }
            }
            Ok(())
        })
        .about(&rows, "the same number of new tokens for every prompt", |rows| {
            rows.iter().try_for_each(|row| {
                let counted = Counted::of(&[&row.prompt], NEW_TOKENS)?;
                repeated(row.runs.runs.len(), REPEATS)?;
                row.runs.runs.iter().try_for_each(|run| counted.check(run))
            })
        })
        .about(&rows, "every row has the time of its own prompt, and nothing but generating", |rows| {
            rows.iter().try_for_each(time_fits)
        })
        .about(&rows, "a note on what stands out", |rows| match longest(rows) {
            Some(row) if row.note.trim().is_empty() => Err(Complaint::wrong(format!(
                "after {} prompt tokens, throughput is {:.2} tokens/s, far from the other rows', and the note is empty: \
                 which phase takes that time?",
                row.prompt_tokens, row.runs.throughput.median
            ))),
            _ => Ok(()),
        })
        .score()
}

fn longest(rows: &[EdgeRun]) -> Option<&EdgeRun> {
    rows.iter().max_by_key(|row| row.prompt_tokens)
}

fn kinds(rows: &[EdgeRun], context_len: usize) -> Result<(), Complaint> {
    let missing = |what: &str| Err(Complaint::wrong(format!("there is no {what}")));
    let Some(long) = longest(rows) else { return missing("row") };
    if long.prompt_tokens < context_len / 4 {
        return missing(&format!(
            "very long prompt: the longest has {} tokens, the context {context_len}",
            long.prompt_tokens
        ));
    }
    // A long word can be many tokens.
    if !rows.iter().any(|row| row.prompt_tokens <= 5 || row.prompt.split_whitespace().count() <= 2) {
        return missing("very short prompt, of a word or two");
    }
    if !rows.iter().any(|row| row.prompt.trim().contains('\n')) {
        return missing("multi-line prompt: none has a line break inside");
    }
    // The long prompt may be a sentence over and over; it does not stand for both.
    let is_long = |row: &&EdgeRun| row.prompt_tokens >= context_len / 4;
    let long_ones = rows.iter().filter(is_long).count();
    for row in rows {
        let others_are_long = long_ones - usize::from(is_long(&row)) > 0;
        if others_are_long && is_repetitive(&row.prompt)? {
            return Ok(());
        }
    }
    missing("repetitive prompt, of a few words again and again, besides the long one")
}

fn is_repetitive(prompt: &str) -> Result<bool, Complaint> {
    let mut ids = Machine::new(costs()).tokenizer()?.encode(prompt)?;
    let n = ids.len();
    ids.sort_unstable();
    ids.dedup();
    Ok(n >= 6 && 2 * ids.len() <= n)
}

fn fits(cramped: &Result<Vec<EdgeRun>, Complaint>) -> Result<(), Complaint> {
    match cramped {
        Ok(rows) => kinds(rows, SHORT_CONTEXT),
        Err(Complaint::Failed(message)) => Err(Complaint::wrong(format!(
            "with a model whose context has {SHORT_CONTEXT} tokens your function fails ({message}): every prompt has to \
             fit; take the length of the long one from `loaded.model.info().context_len`, and keep the others short"
        ))),
        Err(complaint) => Err(complaint.clone()),
    }
}

fn time_fits(row: &EdgeRun) -> Result<(), Complaint> {
    let options = GenerateOptions { max_new_tokens: NEW_TOKENS, ..GenerateOptions::default() };
    let expected = seconds(&[&row.prompt], &options)?;
    for run in &row.runs.runs {
        honest(run.total_latency_s, expected)?;
        rates_fit(run)?;
        if !same(run.total_latency_s, expected) {
            return Err(Complaint::wrong(format!(
                "{NEW_TOKENS} new tokens after the {} prompt take {expected:.3} s on this machine, yours says {:.3} s",
                row.name, run.total_latency_s
            )));
        }
    }
    Ok(())
}

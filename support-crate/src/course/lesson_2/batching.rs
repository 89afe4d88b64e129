//! `measure_batched`: the same prompts, more or fewer at a time.

use super::BatchRun;
use super::expected::{Counted, costs, honest, model_on, rates_fit, repeated, same, seconds};
use crate::course::probe::Machine;
use crate::course::{Check, Complaint, Score, ask};
use crate::error::Result;
use crate::generate::GenerateOptions;
use crate::measure::{Clock, Statistics};
use crate::model::Loaded;

/// Five, which no batch size but 1 divides.
const PROMPTS: [&str; 5] = [
    "Once",
    "The capital of France is",
    "To be or not to be, that is the question",
    "A fox",
    "One day Sam found a seed in the garden",
];
const BATCH_SIZES: [usize; 3] = [1, 2, 4];
const NEW_TOKENS: usize = 4;
const REPEATS: usize = 2;

const HINTS: [&str; 3] = [
    "Five prompts, two at a time: how many batches are that, and who waits how long for an answer?",
    "`for chunk in prompts.chunks(batch_size)` gives all batches, the last one too. One run over the list is the sum \
     of its batches' times and tokens; a prompt waits as long as its whole batch takes.",
    "Per run: `let batches: Vec<Metrics> = prompts.chunks(batch_size).map(|chunk| time_batch(clock, loaded, chunk, \
     &options)).collect::<Result<_>>()?;`, then `total_latency_s` and `tokens_generated` are sums over `batches`; \
     `batch_latency` is `Statistics::of` all batches' times, `time_per_sample` of the totals divided by \
     `prompts.len()`.",
];

/// Checks `measure_batched(clock, loaded, prompts, batch_sizes, max_new_tokens, repeats)`.
pub fn check_measure_batched(
    yours: impl Fn(&dyn Clock, &Loaded, &[&str], &[usize], usize, usize) -> Result<Vec<BatchRun>>,
) -> Score {
    let rows = run(&yours);
    Check::new("measure_batched", HINTS)
        .about(&rows, "a row for each batch size, repeated as often as told", |rows| {
            rows.iter().try_for_each(|row| repeated(row.runs.runs.len(), REPEATS))
        })
        .about(&rows, "every prompt is answered, and all new tokens count", |rows| rows.iter().try_for_each(all_tokens))
        .about(&rows, "times nothing but generating", |rows| {
            each_run(rows, |_, latency, own| honest(latency, own.total()))
        })
        .about(&rows, "a run's latency is that of all its batches", |rows| each_run(rows, total_fits))
        .about(&rows, "throughput is all new tokens by all seconds", |rows| {
            rows.iter().flat_map(|row| &row.runs.runs).try_for_each(rates_fit)
        })
        .about(&rows, "batch_latency is what one batch takes", |rows| rows.iter().try_for_each(batch_latency_fits))
        .about(&rows, "time_per_sample is a run's time shared among all prompts", |rows| {
            rows.iter().try_for_each(|row| {
                let expected = Own::of(row.batch_size)?.total() / PROMPTS.len() as f64;
                Complaint::unless(same(row.time_per_sample.median, expected), || {
                    format!(
                        "{} prompts at batch size {} cost {expected:.3} s each, yours says {:.3} s",
                        PROMPTS.len(),
                        row.batch_size,
                        row.time_per_sample.median
                    )
                })
            })
        })
        .score()
}

fn run(
    yours: &impl Fn(&dyn Clock, &Loaded, &[&str], &[usize], usize, usize) -> Result<Vec<BatchRun>>,
) -> Result<Vec<BatchRun>, Complaint> {
    let machine = Machine::new(costs());
    let loaded = model_on(&machine, 1024)?;
    let rows = ask(|| yours(&machine.clock(), &loaded, &PROMPTS, &BATCH_SIZES, NEW_TOKENS, REPEATS))?;
    let mut sizes: Vec<usize> = rows.iter().map(|row| row.batch_size).collect();
    sizes.sort_unstable();
    if sizes == BATCH_SIZES {
        Ok(rows)
    } else {
        Err(Complaint::wrong(format!("the batch sizes {BATCH_SIZES:?} were asked for, {sizes:?} came back")))
    }
}

/// What a batch size costs on this machine.
struct Own {
    /// Seconds of each batch, in order.
    batches: Vec<f64>,
    batch_size: usize,
}

impl Own {
    fn of(batch_size: usize) -> Result<Self, Complaint> {
        let options = GenerateOptions { max_new_tokens: NEW_TOKENS, ..GenerateOptions::default() };
        let batches = PROMPTS.chunks(batch_size).map(|chunk| seconds(chunk, &options)).collect::<Result<_, _>>()?;
        Ok(Self { batches, batch_size })
    }

    fn total(&self) -> f64 {
        self.batches.iter().sum()
    }

    /// The batches that have as many prompts as they may.
    fn full(&self) -> &[f64] {
        &self.batches[..PROMPTS.len() / self.batch_size]
    }
}

fn each_run(rows: &[BatchRun], look: impl Fn(&BatchRun, f64, &Own) -> Result<(), Complaint>) -> Result<(), Complaint> {
    for row in rows {
        let own = Own::of(row.batch_size)?;
        row.runs.runs.iter().try_for_each(|run| look(row, run.total_latency_s, &own))?;
    }
    Ok(())
}

fn all_tokens(row: &BatchRun) -> Result<(), Complaint> {
    let counted = Counted::of(&PROMPTS, NEW_TOKENS)?;
    let full = PROMPTS.len() / row.batch_size * row.batch_size;
    for run in &row.runs.runs {
        if full < PROMPTS.len() && run.tokens_generated == full * NEW_TOKENS {
            return Err(Complaint::wrong(format!(
                "at batch size {}, {full} of {} prompts were answered: the last batch is smaller than the others, and \
                 was dropped",
                row.batch_size,
                PROMPTS.len()
            )));
        }
        if row.batch_size > 1 && run.tokens_generated == PROMPTS.len().div_ceil(row.batch_size) * NEW_TOKENS {
            return Err(Complaint::wrong(format!(
                "at batch size {}, {} tokens were counted: one sequence of each batch. The others got their {NEW_TOKENS} \
                 tokens too, and that is the whole point of a batch",
                row.batch_size, run.tokens_generated
            )));
        }
        counted.check(run)?;
    }
    Ok(())
}

fn total_fits(row: &BatchRun, latency: f64, own: &Own) -> Result<(), Complaint> {
    let total = own.total();
    Complaint::unless(same(latency, total), || {
        format!(
            "all prompts at batch size {} take {total:.3} s on this machine, yours says {latency:.3} s{}",
            row.batch_size,
            if same(latency * row.batch_size as f64, total) { ": that is divided by the batch size" } else { "" }
        )
    })
}

fn batch_latency_fits(row: &BatchRun) -> Result<(), Complaint> {
    let own = Own::of(row.batch_size)?;
    let measured = row.batch_latency.median;
    let medians = |by: f64| -> Result<[f64; 2], Complaint> {
        let of = |batches: &[f64]| Statistics::of(&batches.iter().map(|time| time / by).collect::<Vec<_>>());
        Ok([of(&own.batches)?.median, of(own.full())?.median])
    };
    let is_one_of = |accepted: [f64; 2]| accepted.iter().any(|&median| same(measured, median));
    if is_one_of(medians(1.0)?) {
        return Ok(());
    }
    let why = if row.batch_size > 1 && is_one_of(medians(row.batch_size as f64)?) {
        ". That is the batch's time divided by its size: nobody gets an answer so soon, each prompt waits for its \
         whole batch"
    } else if row.batch_size < PROMPTS.len() && same(measured, own.total()) {
        ". That is the whole list's time"
    } else {
        ""
    };
    Err(Complaint::wrong(format!(
        "a batch of {} takes {:.3} s, yours says {measured:.3} s{why}",
        row.batch_size,
        medians(1.0)?[0]
    )))
}

//! The lesson's stopwatch, for batches and lists of prompts.

use quantlab::error::Result;
use quantlab::generate::{GenerateOptions, generate_tokens};
use quantlab::measure::{Clock, Metrics, Prompts, Runs, stopwatch};
use quantlab::model::Loaded;

use crate::tables::places;

/// One timed generation from all prompts, as one batch: the tokenizer stays outside, the device is waited for on both
/// sides, and the end of a text does not stop it. The new tokens of all sequences count.
///
/// ```
/// use quantlab::prelude::*;
/// use quantlab_course::lesson_2::time_batch;
///
/// let loaded = load_model_and_tokenizer(&["embedded"], "float32", Device::Cpu)?;
/// let options = GenerateOptions { max_new_tokens: 4, ..GenerateOptions::default() };
/// let run = time_batch(&WallClock, &loaded, &["Once upon a time", "Water"], &options)?;
/// assert_eq!(run.tokens_generated, 8);
/// # Ok::<(), Error>(())
/// ```
///
/// # Errors
/// As [`generate_tokens`]: no prompts, or one that is empty or leaves no room for the new tokens in the model's
/// context.
pub fn time_batch(
    clock: &dyn Clock,
    loaded: &Loaded,
    prompts: &[impl AsRef<str>],
    options: &GenerateOptions,
) -> Result<Metrics> {
    let ids = prompts.token_ids(&loaded.tokenizer)?;
    let options = GenerateOptions { stop_at_eos: false, ..options.clone() };
    let generate = || generate_tokens(&*loaded.model, &ids, &options, &mut |_, _| ());
    let (generated, total_latency_s) = stopwatch(clock, &*loaded.model, generate)?;
    Ok(Metrics::of(generated.iter().map(|sequence| sequence.tokens.len()).sum(), total_latency_s))
}

/// Lets several scenarios take turns: one run of each, then the next round, so that whatever else the machine does
/// meanwhile happens to all of them alike. They begin a round in turn, too, so that none always follows the same one. The
/// first round is dropped. Returns the `repeats` runs of each scenario.
///
/// ```
/// use quantlab_course::in_turn;
///
/// let mut order = Vec::new();
/// let runs = in_turn(2, &["a", "b"], |name| {
///     order.push(*name);
///     Ok(order.len())
/// })?;
/// assert_eq!(order, ["a", "b", "b", "a", "a", "b"]);
/// assert_eq!(runs, [[4, 5], [3, 6]]);
/// # Ok::<(), quantlab::error::Error>(())
/// ```
///
/// # Errors
/// Those of a run.
pub fn in_turn<S, T>(repeats: usize, scenarios: &[S], mut run: impl FnMut(&S) -> Result<T>) -> Result<Vec<Vec<T>>> {
    let mut all: Vec<Vec<T>> = scenarios.iter().map(|_| Vec::with_capacity(repeats)).collect();
    for round in 0..=repeats {
        for place in places(round, scenarios.len()) {
            let result = run(&scenarios[place])?;
            if round > 0 {
                all[place].push(result);
            }
        }
    }
    Ok(all)
}

/// Like [`in_turn`], with the statistics of each scenario's runs.
pub(super) fn runs_in_turn<S>(
    repeats: usize,
    scenarios: &[S],
    run: impl FnMut(&S) -> Result<Metrics>,
) -> Result<Vec<Runs>> {
    in_turn(repeats, scenarios, run)?.into_iter().map(Runs::of).collect()
}

//! What a timed generation should give: the same work, done by the library on a machine of the same costs.

use crate::course::Complaint;
use crate::course::probe::{Costs, Machine};
use crate::generate::{GenerateOptions, generate_tokens};
use crate::measure::{Clock, Metrics};
use crate::model::Loaded;

const COLD_START: f64 = 1e3;
const ENCODE: f64 = 1e4;
const DECODE: f64 = 1e6;

/// Costs of which each mistake leaves its own trace in a time.
pub(super) fn costs() -> Costs {
    Costs {
        cold_start: COLD_START,
        encode: ENCODE,
        decode: DECODE,
        left_padding: 0.003,
        launch: 0.01,
        is_asynchronous: true,
        ..Costs::default()
    }
}

/// A model that wants to end its text after a few tokens, with a context of so many.
pub(super) fn model_on(machine: &Machine, context_len: usize) -> Result<Loaded, Complaint> {
    Ok(machine.loaded(|model| model.ending_at(8).with_info(|info| info.context_len = context_len))?)
}

/// Prompts in tokens.
pub(super) fn lengths(prompts: &[&str]) -> Result<Vec<usize>, Complaint> {
    let tokenizer = Machine::new(Costs::default()).tokenizer()?;
    prompts.iter().map(|prompt| Ok(tokenizer.encode(prompt)?.len())).collect()
}

/// Seconds that generating from the prompts takes, as one batch and with nothing else inside the timer.
pub(super) fn seconds(prompts: &[&str], options: &GenerateOptions) -> Result<f64, Complaint> {
    let machine = Machine::new(costs());
    let loaded = machine.loaded(|model| model.with_info(|info| info.context_len = 1 << 20))?;
    let ids = prompts.iter().map(|prompt| loaded.tokenizer.encode(prompt)).collect::<Result<Vec<_>, _>>()?;
    let options = GenerateOptions { stop_at_eos: false, ..options.clone() };
    let clock = machine.clock();
    let run = || -> Result<f64, Complaint> {
        generate_tokens(&*loaded.model, &ids, &options, &mut |_, _| ())?;
        loaded.model.synchronize()?;
        Ok(clock.now())
    };
    let warm = run()?;
    Ok(run()? - warm)
}

/// Two times that are the same work.
pub(super) fn same(measured: f64, expected: f64) -> bool {
    (measured - expected).abs() <= 1e-6 * expected.abs().max(1.0)
}

/// What a measured time has in it that it should not have, or lacks. Says nothing about smaller differences,
/// which are another setting's work.
pub(super) fn honest(measured: f64, expected: f64) -> Result<(), Complaint> {
    let surplus = measured - expected;
    let message = if !surplus.is_finite() {
        "a latency is not a number"
    } else if surplus >= 0.9 * DECODE {
        "ids were turned into text between the readings of the clock: that is not what the model's speed is about"
    } else if surplus >= 0.9 * ENCODE {
        "the tokenizer ran between the readings of the clock: turn the prompts into ids before the clock starts"
    } else if surplus >= 0.9 * COLD_START {
        "the very first run was timed, with all that only a first run pays for (page faults, empty caches, threads \
         that wake): run once, drop the result, and wait for the device (`synchronize`) before the clock starts"
    } else if measured < 0.1 * expected {
        "your clock stopped while the device was still computing: call `loaded.model.synchronize()?` before both \
         readings"
    } else {
        return Ok(());
    };
    Err(Complaint::wrong(message))
}

/// What a run should count, and what it may have counted instead.
pub(super) struct Counted {
    /// Prompts that were generated from.
    pub sequences: usize,
    /// New tokens of each.
    pub new_tokens: usize,
    /// Tokens of all prompts.
    pub prompt_tokens: usize,
    /// The same with the padding that one batch of them has.
    pub padded_tokens: usize,
}

impl Counted {
    pub(super) fn of(prompts: &[&str], new_tokens: usize) -> Result<Self, Complaint> {
        let lengths = lengths(prompts)?;
        let longest = lengths.iter().max().copied().unwrap_or(0);
        Ok(Self {
            sequences: prompts.len(),
            new_tokens,
            prompt_tokens: lengths.iter().sum(),
            padded_tokens: longest * prompts.len(),
        })
    }

    pub(super) fn check(&self, run: &Metrics) -> Result<(), Complaint> {
        let Self { sequences, new_tokens, prompt_tokens, padded_tokens } = *self;
        let (counted, expected) = (run.tokens_generated, sequences * new_tokens);
        if counted == expected {
            return Ok(());
        }
        let all = format!("{sequences} prompts with {new_tokens} new tokens each are {expected} tokens");
        Err(Complaint::wrong(if counted == expected + prompt_tokens || counted == expected + padded_tokens {
            format!("{all}; you say {counted}: the tokens of the prompts, or their padding, were counted as generated")
        } else if sequences > 1 && counted == new_tokens {
            format!("{all}; you say {counted}: that is what one sequence got, and the others did their work too")
        } else if counted < expected {
            format!(
                "{all}; you say {counted}: were all prompts answered, and is `stop_at_eos` false? Runs of different \
                 lengths do not compare"
            )
        } else {
            format!("{all}; you say {counted}: is `max_new_tokens` the one that was passed in?")
        }))
    }
}

/// The rates of a run fit its time and its tokens.
pub(super) fn rates_fit(run: &Metrics) -> Result<(), Complaint> {
    let per_token = 1e3 * run.total_latency_s / run.tokens_generated as f64;
    if !same(run.avg_latency_per_token_ms, per_token) {
        return Err(Complaint::wrong(format!(
            "`avg_latency_per_token_ms` is {:.4}, but {:.3} s for {} tokens are {per_token:.4} ms each",
            run.avg_latency_per_token_ms, run.total_latency_s, run.tokens_generated
        )));
    }
    let expected = run.tokens_generated as f64 / run.total_latency_s;
    Complaint::unless(same(run.tokens_per_sec, expected), || {
        format!(
            "`tokens_per_sec` is {:.3}, but {} tokens in {:.3} s are {expected:.3}",
            run.tokens_per_sec, run.tokens_generated, run.total_latency_s
        )
    })
}

/// Every row has as many runs as was asked for.
pub(super) fn repeated(runs: usize, repeats: usize) -> Result<(), Complaint> {
    Complaint::unless(runs == repeats, || format!("`repeats` was {repeats}, a row has {runs} runs"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::PaddingSide;

    const PROMPTS: [&str; 2] = ["Once", "Once upon a time there was a fox"];

    #[test]
    fn every_setting_of_cache_and_padding_has_a_time_of_its_own() {
        let mut times = Vec::new();
        for use_cache in [true, false] {
            for padding_side in [PaddingSide::Left, PaddingSide::Right] {
                let options =
                    GenerateOptions { max_new_tokens: 3, use_cache, padding_side, ..GenerateOptions::default() };
                times.push(seconds(&PROMPTS, &options).unwrap());
            }
        }
        for (i, a) in times.iter().enumerate() {
            assert!(times[..i].iter().all(|b| !same(*a, *b)), "{times:?}");
        }
    }

    #[test]
    fn a_time_is_the_sum_of_its_passes() {
        let options = GenerateOptions { max_new_tokens: 2, ..GenerateOptions::default() };
        let n = lengths(&["Once upon a time"]).unwrap()[0] as f64;
        assert!(same(seconds(&["Once upon a time"], &options).unwrap(), 2.0 * (1.0 + 0.01) + 0.01 * (n + 1.0)));
    }

    #[test]
    fn only_gross_differences_are_called_dishonest() {
        assert!(honest(10.0, 10.0).is_ok() && honest(14.0, 10.0).is_ok());
        for dishonest in [10.0 + COLD_START, 10.0 + ENCODE, 10.0 + DECODE, 0.1, f64::NAN] {
            assert!(honest(dishonest, 10.0).is_err());
        }
    }
}

//! What the checks of the lesson share: costs, tokens, and numbers that fit each other.

use quantlab::measure::Metrics;

use crate::failures::{must_fail, passes_failures_on, taken_for_success};
use crate::probe::{Costs, Machine};
use crate::{Complaint, Verdict};

/// Costs under which no two runs take the same time, so that each can be told from its repeats.
pub(super) const COSTS: Costs = Costs {
    drift: 1e-3,
    pause: 20.0,
    cold_start: 1e3,
    encode: 1e4,
    decode: 1e6,
    launch: 1e-3,
    is_asynchronous: true,
    ..Costs::PLAIN
};

/// Prompts as ids.
pub(super) fn tokens_of(prompts: &[&str]) -> Result<Vec<Vec<u32>>, Complaint> {
    let tokenizer = Machine::new(Costs::PLAIN).tokenizer()?;
    prompts.iter().map(|prompt| Ok(tokenizer.encode(prompt)?)).collect()
}

/// Two numbers that are the same but for the rounding of sums.
pub(super) fn same(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-6 * b.abs().max(1e-6)
}

/// Two numbers that are the same, or one of which was rounded to three digits.
pub(super) fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 5.1e-3 * b.abs()
}

/// An answer returns the error of each of some `calls` of a model, and one for no runs: which is only asked for if it
/// makes as many runs as it was told to. (Where it does not, that is said elsewhere.)
pub(super) fn fails_where_runs_do<R>(
    calls: impl Iterator<Item = usize>,
    answer: impl Fn(&Machine) -> Result<Vec<R>, Complaint>,
    repeated: bool,
    without_runs: impl Fn(&Machine) -> Result<Vec<R>, Complaint>,
) -> Verdict {
    let returned = |rows: &[R]| format!("{} rows", rows.len());
    let of_model = |rows: Vec<R>| taken_for_success("the model failed in one of the runs", true, &returned(&rows));
    passes_failures_on(COSTS, calls, answer, of_model)?;
    if !repeated {
        return Ok(());
    }
    must_fail(without_runs(&Machine::new(COSTS)), |rows| {
        taken_for_success("no runs were asked for, so there is nothing to report", false, &returned(&rows))
    })
}

/// The rates of a run fit its time and its tokens.
pub(super) fn rates_fit(run: &Metrics) -> Verdict {
    let Metrics { total_latency_s, tokens_generated, tokens_per_sec, avg_latency_per_token_ms } = *run;
    let tokens = tokens_generated as f64;
    let figures = [
        ("avg_latency_per_token_ms", avg_latency_per_token_ms, 1e3 * total_latency_s / tokens, "ms each"),
        ("tokens_per_sec", tokens_per_sec, tokens / total_latency_s, "tokens/s"),
    ];
    figures.into_iter().try_for_each(|(name, got, expected, unit)| {
        Complaint::unless(close(got, expected), || {
            format!(
                "`{name}` is {got:.4}, but {tokens_generated} tokens in {total_latency_s:.3} s are {expected:.4} {unit}"
            )
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_may_be_rounded_but_not_wrong() {
        let run = |tokens_per_sec| Metrics { tokens_per_sec, ..Metrics::of(7, 3.0) };
        assert_eq!(rates_fit(&run(2.33)), Ok(()));
        assert!(rates_fit(&run(2.4)).unwrap_err().to_string().contains("tokens_per_sec"));
    }
}

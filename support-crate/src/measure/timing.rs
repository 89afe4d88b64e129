//! How long generating takes: as a whole, to the first token, and for each token after it.

use std::fmt;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::{RunInfo, Statistics};
use crate::error::{Error, Result};
use crate::generate::{GenerateOptions, generate_tokens};
use crate::model::Loaded;

/// What is timed. `TimingOptions::default()`: 50 tokens with the cache, 1 warm-up, 3 repeats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimingOptions {
    /// Exactly this many tokens are generated each time; a token that ends the text does not stop.
    pub max_new_tokens: usize,
    /// Whether keys and values of earlier tokens are kept.
    pub use_cache: bool,
    /// Runs before the first one that counts: caches fill, threads start, memory is mapped.
    pub warmup: usize,
    /// Runs that count.
    pub repeats: usize,
}

impl Default for TimingOptions {
    fn default() -> Self {
        Self { max_new_tokens: 50, use_cache: true, warmup: 1, repeats: 3 }
    }
}

/// How long generating took. Times are medians over the repeats, each by itself, so that those of prefill
/// and decode need not add up to that of the whole; the statistics hold their intervals.
///
/// *Prefill* reads the prompt and ends with the first new token; *decode* is every token after it.
///
/// In a batch, latencies are those of the whole batch, which each of its sequences sees; rates count the
/// tokens of all sequences.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Timing {
    /// From the prompt's tokens to the last new token, in seconds.
    pub total_latency_s: f64,
    /// Sequences that were generated at once.
    pub batch_size: usize,
    /// New tokens of each sequence in each run.
    pub tokens_generated: usize,
    /// New tokens of all sequences for each second of the whole run, prefill included.
    pub tokens_per_sec: f64,
    /// The whole run's time for each new token of a sequence, in milliseconds.
    pub avg_latency_per_token_ms: f64,
    /// Tokens of the prompt; of the longest one in a batch.
    pub prompt_tokens: usize,
    /// Time to the first new token, in seconds.
    pub prefill_s: f64,
    /// Time to the first new token, in milliseconds.
    pub ttft_ms: f64,
    /// From the first new token to the last, in seconds; 0 if there is only one.
    pub decode_s: f64,
    /// Tokens of all sequences for each second of decode; 0 if each has only one new token.
    pub decode_tokens_per_sec: f64,
    /// Whether keys and values of earlier tokens were kept.
    pub use_cache: bool,
    /// Median time of each new token in its place, in milliseconds; the first is the prefill.
    pub token_ms: Vec<f64>,
    /// Each run that counts.
    pub repeats: Vec<Repeat>,
    /// Statistics of `total_latency_s`.
    pub total_latency: Statistics,
    /// Statistics of `tokens_per_sec`.
    pub throughput: Statistics,
    /// Statistics of `ttft_ms`.
    pub ttft: Statistics,
    /// Statistics of `decode_tokens_per_sec`.
    pub decode_rate: Statistics,
    /// What was measured on.
    pub run: RunInfo,
}

/// One timed run, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Repeat {
    /// The whole run.
    pub total_s: f64,
    /// To the first new token.
    pub prefill_s: f64,
    /// From the first new token to the last.
    pub decode_s: f64,
}

/// Times how the model continues `prompt`.
///
/// Tokenising comes before the timer, turning tokens into text and printing do not happen. The device
/// is waited for on both sides. The cache's memory is set aside inside the timer, as a request would.
///
/// ```
/// use quantlab::measure::{TimingOptions, time_generate};
/// use quantlab::model::{Device, load_model_and_tokenizer};
///
/// let loaded = load_model_and_tokenizer(&["embedded"], "float32", Device::Cpu)?;
/// let options = TimingOptions { max_new_tokens: 4, ..TimingOptions::default() };
/// let timing = time_generate(&loaded, "Once upon a time", &options)?;
/// assert_eq!(timing.tokens_generated, 4);
/// println!("{timing}");
/// # Ok::<(), quantlab::error::Error>(())
/// ```
///
/// # Errors
/// No repeats or no new tokens; an empty prompt, or one that leaves no room for the new tokens in the model's
/// context; a model whose logits are NaN or infinite; a device that fails or has no memory left.
pub fn time_generate(loaded: &Loaded, prompt: &str, options: &TimingOptions) -> Result<Timing> {
    time_generate_batch(loaded, &[prompt], options)
}

/// Times how the model continues several prompts at once, as one batch. Of prompts of different lengths,
/// the shorter ones are padded on the left, which costs time: prompts of equal length show what batching
/// itself gains.
///
/// ```
/// use quantlab::measure::{TimingOptions, time_generate_batch};
/// use quantlab::model::{Device, load_model_and_tokenizer};
///
/// let loaded = load_model_and_tokenizer(&["embedded"], "float32", Device::Cpu)?;
/// let options = TimingOptions { max_new_tokens: 4, ..TimingOptions::default() };
/// for batch_size in [1, 4] {
///     let timing = time_generate_batch(&loaded, &vec!["Once upon a time"; batch_size], &options)?;
///     println!("{:.0} tokens/s, {:.2} ms a step", timing.tokens_per_sec, timing.avg_latency_per_token_ms);
/// }
/// # Ok::<(), quantlab::error::Error>(())
/// ```
///
/// # Errors
/// No prompts; otherwise as [`time_generate`].
pub fn time_generate_batch(loaded: &Loaded, prompts: &[&str], options: &TimingOptions) -> Result<Timing> {
    let ids = prompts.iter().map(|prompt| loaded.tokenizer.encode(prompt)).collect::<Result<Vec<_>>>()?;
    time_generate_tokens(loaded, &ids, options)
}

/// As [`time_generate_batch`], for prompts of token ids: for lengths that must be exact.
///
/// # Errors
/// As [`time_generate_batch`], and ids beyond the model's vocabulary.
pub fn time_generate_tokens(loaded: &Loaded, prompts: &[Vec<u32>], options: &TimingOptions) -> Result<Timing> {
    let timings = time_in_turn(&[(loaded, prompts.to_vec())], options)?;
    timings.into_iter().next().ok_or_else(|| Error::input("there is no model to time"))
}

/// Times several models against each other: one run of each in turn, until each has its repeats.
///
/// Timed one after the other, two models would also differ by what the machine did meanwhile (its clock,
/// its neighbours), and intervals that come from within one block of runs do not show that.
///
/// # Errors
/// As [`time_generate`].
pub fn time_generate_interleaved(models: &[&Loaded], prompt: &str, options: &TimingOptions) -> Result<Vec<Timing>> {
    let work = models.iter().map(|&loaded| Ok((loaded, vec![loaded.tokenizer.encode(prompt)?])));
    time_in_turn(&work.collect::<Result<Vec<_>>>()?, options)
}

/// Times each model with its batch of prompts, in turn.
fn time_in_turn(work: &[(&Loaded, Vec<Vec<u32>>)], options: &TimingOptions) -> Result<Vec<Timing>> {
    if options.repeats == 0 {
        return Err(Error::input("`repeats` is 0").hint("time at least one run; six or more give a useful interval"));
    }
    let mut runs = vec![Vec::new(); work.len()];
    for round in 0..options.warmup.saturating_add(options.repeats) {
        for ((loaded, prompts), runs) in work.iter().zip(&mut runs) {
            let moments = timed_run(loaded, prompts, options)?;
            if round >= options.warmup {
                runs.push(moments);
            }
        }
    }
    work.iter().zip(&runs).map(|((loaded, prompts), runs)| summarise(loaded, prompts, options, runs)).collect()
}

/// The moments, from the start, at which each new token was known; in a batch, that of its last sequence.
fn timed_run(loaded: &Loaded, prompts: &[Vec<u32>], options: &TimingOptions) -> Result<Vec<Duration>> {
    let model = &*loaded.model;
    let generate = GenerateOptions {
        max_new_tokens: options.max_new_tokens,
        use_cache: options.use_cache,
        stop_at_eos: false,
        ..GenerateOptions::default()
    };
    let mut moments = Vec::new();
    model.synchronize()?;
    let start = Instant::now();
    // Choosing a token waits for its logits. What comes after the last one, such as freeing the cache, is no part of it.
    generate_tokens(model, prompts, &generate, &mut |row, _| {
        if row + 1 == prompts.len() {
            moments.push(start.elapsed());
        }
    })?;
    Ok(moments)
}

fn summarise(loaded: &Loaded, prompts: &[Vec<u32>], options: &TimingOptions, runs: &[Vec<Duration>]) -> Result<Timing> {
    let (n, batch_size) = (options.max_new_tokens, prompts.len());
    let repeats: Vec<Repeat> = runs.iter().map(|moments| Repeat::of(moments)).collect();
    let statistics = |value: &dyn Fn(&Repeat) -> f64| Statistics::of(&repeats.iter().map(value).collect::<Vec<_>>());
    let total_latency = statistics(&|repeat| repeat.total_s)?;
    let throughput = statistics(&|repeat| rate(batch_size * n, repeat.total_s))?;
    let ttft = statistics(&|repeat| repeat.prefill_s * 1e3)?;
    let decode = statistics(&|repeat| repeat.decode_s)?;
    let decode_rate = statistics(&|repeat| rate(batch_size * (n - 1), repeat.decode_s))?;
    let token_ms = (0..n).map(|i| Ok(Statistics::of(&token_times_ms(runs, i))?.median)).collect::<Result<Vec<_>>>()?;
    Ok(Timing {
        total_latency_s: total_latency.median,
        batch_size,
        tokens_generated: n,
        tokens_per_sec: throughput.median,
        avg_latency_per_token_ms: total_latency.median * 1e3 / n as f64,
        prompt_tokens: prompts.iter().map(Vec::len).max().unwrap_or(0),
        prefill_s: ttft.median / 1e3,
        ttft_ms: ttft.median,
        decode_s: decode.median,
        decode_tokens_per_sec: decode_rate.median,
        use_cache: options.use_cache,
        token_ms,
        repeats,
        total_latency,
        throughput,
        ttft,
        decode_rate,
        run: RunInfo::of(loaded),
    })
}

impl Repeat {
    fn of(moments: &[Duration]) -> Self {
        let seconds = |moment: Option<&Duration>| moment.map_or(0.0, Duration::as_secs_f64);
        let (prefill_s, total_s) = (seconds(moments.first()), seconds(moments.last()));
        Self { total_s, prefill_s, decode_s: total_s - prefill_s }
    }
}

/// How long the i-th token took in each run, in milliseconds.
fn token_times_ms(runs: &[Vec<Duration>], i: usize) -> Vec<f64> {
    let taken = |moments: &Vec<Duration>| {
        let before = if i == 0 { Duration::ZERO } else { moments[i - 1] };
        moments[i].saturating_sub(before).as_secs_f64() * 1e3
    };
    runs.iter().map(taken).collect()
}

/// Tokens for each second; 0 where nothing was timed.
fn rate(tokens: usize, seconds: f64) -> f64 {
    if tokens == 0 || seconds <= 0.0 { 0.0 } else { tokens as f64 / seconds }
}

impl fmt::Display for Timing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cache = if self.use_cache { "with cache" } else { "without cache" };
        writeln!(
            f,
            "{}{} prompt tokens + {} new, {cache}, {} repeats",
            if self.batch_size > 1 { format!("{} x ", self.batch_size) } else { String::new() },
            self.prompt_tokens,
            self.tokens_generated,
            self.repeats.len()
        )?;
        writeln!(f, "  total_latency_s           {:.4}", self.total_latency)?;
        writeln!(f, "  tokens_per_sec            {:.1}", self.throughput)?;
        writeln!(f, "  avg_latency_per_token_ms  {:.3}", self.avg_latency_per_token_ms)?;
        writeln!(f, "  ttft_ms (prefill)         {:.3}", self.ttft)?;
        writeln!(f, "  decode_tokens_per_sec     {:.1}", self.decode_rate)?;
        write!(f, "  {}", self.run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefill_and_decode_add_up() {
        let moments = [40, 50, 65].map(Duration::from_millis);
        let repeat = Repeat::of(&moments);
        assert!((repeat.prefill_s - 0.040).abs() < 1e-9 && (repeat.decode_s - 0.025).abs() < 1e-9);
        assert!((repeat.total_s - repeat.prefill_s - repeat.decode_s).abs() < 1e-12);
        let runs = [moments.to_vec()];
        assert_eq!([0, 1, 2].map(|i| token_times_ms(&runs, i)[0].round()), [40.0, 10.0, 15.0]);
    }

    #[test]
    fn nothing_timed_has_no_rate() {
        assert_eq!(rate(0, 1.0), 0.0);
        assert_eq!(rate(3, 0.0), 0.0);
        assert_eq!(rate(3, 1.5), 2.0);
    }
}

//! How long generating takes: as a whole, to the first token, and for each token after it.

use std::fmt;

use quantlab_kernels::threads_granted;
use serde::Serialize;

use super::metrics::rate;
use super::{Clock, DecodeLimit, MemoryReader, Metrics, Prompts, RunInfo, Runs, Statistics, WallClock};
use crate::error::{Error, Result};
use crate::generate::{GenerateOptions, generate_tokens};
use crate::model::{CacheFormat, CausalLm, Device, Loaded, threads};

/// What is timed. `TimingOptions::default()`: 50 tokens with the cache, 1 warm-up, 3 repeats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimingOptions {
    /// Exactly this many tokens are generated each time; a token that ends the text does not stop.
    pub max_new_tokens: usize,
    /// Whether keys and values of earlier tokens are kept.
    pub use_cache: bool,
    /// The format of these keys and values; `None` for float32 on the CPU, and for the precision of the weights on a GPU.
    pub cache_format: Option<CacheFormat>,
    /// Runs before the first one that counts: caches fill, threads start, memory is mapped.
    pub warmup: usize,
    /// Runs that count.
    pub repeats: usize,
    /// Whether the bandwidth of each device's memory is measured in every round too, for [`Timing::of_limit`]. It takes a
    /// buffer of several times the cache, and some 50 ms a round.
    pub bandwidth: bool,
}

impl Default for TimingOptions {
    fn default() -> Self {
        Self { max_new_tokens: 50, use_cache: true, cache_format: None, warmup: 1, repeats: 3, bandwidth: false }
    }
}

/// How long generating took.
///
/// *Prefill* reads the prompt and ends with the first new token; *decode* is every token after it. In a batch,
/// latencies are those of the whole batch, which each of its sequences sees; rates count the tokens of all sequences.
/// `avg_latency_per_token_ms` is what a token costs, the inverse of the rate: in a batch of n, a sequence waits about n
/// times as long for its next one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Timing {
    /// Sequences that were generated at once.
    pub batch_size: usize,
    /// Tokens of the prompt; of the longest one in a batch.
    pub prompt_tokens: usize,
    /// Whether keys and values of earlier tokens were kept.
    pub use_cache: bool,
    /// The format of these, if it was not left to the model.
    pub cache_format: Option<CacheFormat>,
    /// Prefill and decode together, of each run that counts.
    pub runs: Runs,
    /// Time to the first new token, in milliseconds.
    pub ttft_ms: Statistics,
    /// Tokens per second of decode; 0 if each sequence has only one new token.
    pub decode_tokens_per_s: Statistics,
    /// Decode alone, of each run that counts; `None` if each sequence has only one new token.
    pub decode_runs: Option<Runs>,
    /// Bandwidth of the device's memory in the same rounds, in 10^9 bytes per second; `None` unless
    /// [`TimingOptions::bandwidth`].
    pub gb_per_s: Option<Statistics>,
    /// The part of [`DecodeLimit`] that decode reached, round by round: 1 is all of it.
    pub of_limit: Option<Statistics>,
    /// Median time of the first, second, ... new token, in milliseconds; the first is the prefill.
    pub token_ms: Vec<f64>,
    /// What was measured on.
    pub run: RunInfo,
}

impl Loaded {
    /// Times how the model continues a prompt, or several at once, as one batch.
    ///
    /// Prompts are tokenised before the timer starts, and nothing is turned into text or printed while it runs. The timer
    /// waits for the device before it starts, and choosing a token waits for its logits. Memory for the cache is allocated
    /// while the timer runs, as for any request, and freed after it has stopped.
    ///
    /// ```
    /// use quantlab::measure::TimingOptions;
    /// use quantlab::model::{Device, load_model_and_tokenizer};
    ///
    /// let loaded = load_model_and_tokenizer(&["embedded"], "float32", Device::Cpu)?;
    /// let options = TimingOptions { max_new_tokens: 4, ..TimingOptions::default() };
    /// let timing = loaded.time("Once upon a time", &options)?;
    /// assert_eq!(timing.token_ms.len(), 4);
    /// println!("{timing}");
    /// let batch = loaded.time(&["Once upon a time"; 4], &options)?;
    /// println!("{:.0} tokens/s, of decode {:.0}", batch.runs.tokens_per_s, batch.decode_tokens_per_s);
    /// # Ok::<(), quantlab::error::Error>(())
    /// ```
    ///
    /// # Errors
    /// No repeats or no new tokens; no prompts, an empty one, or one that leaves no room for the new tokens in the
    /// model's context; ids beyond the model's vocabulary; a model whose logits are NaN or infinite; a device that fails
    /// or has no memory left, which [`bandwidth`](TimingOptions::bandwidth) needs too.
    pub fn time(&self, prompts: impl Prompts, options: &TimingOptions) -> Result<Timing> {
        Ok(time_in_turn(&WallClock, &[(self, prompts)], options)?.remove(0))
    }
}

/// Times several models against each other, by any clock: one run of each in turn, until each has had its repeats. They
/// begin a round in turn, too, so that none always follows the same one, or the reading of memory.
///
/// Timed one after the other, two models would also differ by what the machine did meanwhile (its clock rate,
/// its neighbours), and intervals made from one block of runs do not show that.
///
/// ```
/// use quantlab::measure::{TimingOptions, WallClock, time_in_turn};
/// use quantlab::model::{Device, load_model_and_tokenizer};
///
/// let [full, half] = ["float32", "bfloat16"].map(|dtype| load_model_and_tokenizer(&["embedded"], dtype, Device::Cpu));
/// let (full, half) = (full?, half?);
/// let options = TimingOptions { max_new_tokens: 4, ..TimingOptions::default() };
/// let prompt = "Once upon a time";
/// let timings = time_in_turn(&WallClock, &[(&full, prompt), (&half, prompt)], &options)?;
/// assert_eq!(timings.len(), 2);
/// # Ok::<(), quantlab::error::Error>(())
/// ```
///
/// # Errors
/// As [`Loaded::time`].
pub fn time_in_turn<'a, P: Prompts>(
    clock: &dyn Clock,
    work: &[(&'a Loaded, P)],
    options: &TimingOptions,
) -> Result<Vec<Timing>> {
    let ids = |(loaded, prompts): &(&'a Loaded, P)| Ok((*loaded, prompts.token_ids(&loaded.tokenizer)?));
    let work: Vec<(&Loaded, Vec<Vec<u32>>)> = work.iter().map(ids).collect::<Result<_>>()?;
    if options.repeats == 0 {
        return Err(Error::input("`repeats` is 0").hint("time at least one run; six or more give a useful interval"));
    }
    let mut memories = Memories::of(work.iter().map(|(loaded, _)| loaded.model.info().device), options.bandwidth)?;
    let mut runs = vec![Vec::new(); work.len()];
    for round in 0..options.warmup.saturating_add(options.repeats) {
        let first = round % work.len().max(1);
        for index in (first..work.len()).chain(0..first) {
            let (loaded, prompts) = &work[index];
            let run = timed_run(clock, &*loaded.model, prompts, options)?;
            if round >= options.warmup {
                runs[index].push(run);
            }
        }
        if round >= options.warmup {
            memories.measure()?;
        }
    }
    let rows = work.iter().zip(&runs);
    rows.map(|((loaded, prompts), runs)| {
        summarise(loaded, prompts, options, runs, memories.gb_per_s(loaded.model.info().device))
    })
    .collect()
}

/// The memory of each device that has models, and its bandwidth in each round.
struct Memories(Vec<(Device, MemoryReader, Vec<f64>)>);

impl Memories {
    /// None at all unless they are wanted.
    fn of(devices: impl Iterator<Item = Device>, wanted: bool) -> Result<Self> {
        let mut memories: Vec<(Device, MemoryReader, Vec<f64>)> = Vec::new();
        for device in devices.filter(|_| wanted) {
            if memories.iter().all(|(known, ..)| *known != device) {
                memories.push((device, MemoryReader::of(device)?, Vec::new()));
            }
        }
        Ok(Self(memories))
    }

    fn measure(&mut self) -> Result<()> {
        for (_, reader, gb_per_s) in &mut self.0 {
            gb_per_s.push(reader.measure()?);
        }
        Ok(())
    }

    fn gb_per_s(&self, device: Device) -> &[f64] {
        self.0.iter().find(|(known, ..)| *known == device).map_or(&[], |(.., gb_per_s)| gb_per_s)
    }
}

#[derive(Clone)]
struct Run {
    /// When each new token was known, in seconds from the start; in a batch, that of its last sequence.
    moments: Vec<f64>,
    threads_granted: usize,
}

fn timed_run(clock: &dyn Clock, model: &dyn CausalLm, prompts: &[Vec<u32>], options: &TimingOptions) -> Result<Run> {
    let generate = GenerateOptions {
        max_new_tokens: options.max_new_tokens,
        use_cache: options.use_cache,
        cache_format: options.cache_format,
        stop_at_eos: false,
        ..GenerateOptions::default()
    };
    let mut moments = Vec::new();
    model.synchronize()?;
    let start = clock.now();
    // Choosing a token waits for its logits. What comes after the last one, such as freeing the cache, is not part of
    // it.
    let mut on_token = |row: usize, _: u32| {
        if row + 1 == prompts.len() {
            moments.push(clock.now() - start);
        }
    };
    let (generated, threads_granted) = threads_granted(|| generate_tokens(model, prompts, &generate, &mut on_token));
    generated?;
    Ok(Run { moments, threads_granted })
}

fn summarise(
    loaded: &Loaded,
    prompts: &[Vec<u32>],
    options: &TimingOptions,
    runs: &[Run],
    gb_per_s: &[f64],
) -> Result<Timing> {
    let (n, batch_size) = (options.max_new_tokens, prompts.len());
    let statistics = |figure: &dyn Fn(&[f64]) -> f64| {
        Statistics::of(&runs.iter().map(|run| figure(&run.moments)).collect::<Vec<_>>())
    };
    let threads_granted = runs.iter().map(|run| run.threads_granted).min().unwrap_or_else(threads);
    let token_ms = |i: usize| statistics(&|moments| 1e3 * (moments[i] - if i == 0 { 0.0 } else { moments[i - 1] }));
    let steps_per_s = |moments: &[f64]| rate(n - 1, moments[n - 1] - moments[0]);
    let decode = |run: &Run| Metrics::of(batch_size * (n - 1), run.moments[n - 1] - run.moments[0]);
    let info = loaded.model.info();
    let of_limit = |(run, &gb_per_s): (&Run, &f64)| {
        let limit = DecodeLimit { bytes_per_token: info.bytes_per_token, gb_per_s };
        limit.fraction(steps_per_s(&run.moments))
    };
    let of_limit: Vec<f64> = if n > 1 { runs.iter().zip(gb_per_s).map(of_limit).collect() } else { Vec::new() };
    let of_rounds = |values: &[f64]| (!values.is_empty()).then(|| Statistics::of(values)).transpose();
    Ok(Timing {
        batch_size,
        prompt_tokens: prompts.iter().map(Vec::len).max().unwrap_or(0),
        use_cache: options.use_cache,
        cache_format: options.cache_format.filter(|_| options.use_cache),
        runs: Runs::of(runs.iter().map(|run| Metrics::of(batch_size * n, run.moments[n - 1])).collect())?,
        ttft_ms: token_ms(0)?,
        decode_tokens_per_s: statistics(&|moments| batch_size as f64 * steps_per_s(moments))?,
        decode_runs: (n > 1).then(|| Runs::of(runs.iter().map(decode).collect())).transpose()?,
        gb_per_s: of_rounds(gb_per_s)?,
        of_limit: of_rounds(&of_limit)?,
        token_ms: (0..n).map(|i| Ok(token_ms(i)?.median)).collect::<Result<_>>()?,
        run: RunInfo { threads_granted, ..RunInfo::of(loaded) },
    })
}

impl Timing {
    /// How many times as fast as `other` this decoded, by tokens per second and round by round: the prompts are left out,
    /// and what slows a whole round down cancels out if both took turns.
    ///
    /// # Errors
    /// No decode; as [`Runs::rate_to`].
    pub fn times_as_fast_as(&self, other: &Self) -> Result<Statistics> {
        let (Some(runs), Some(others)) = (&self.decode_runs, &other.decode_runs) else {
            return Err(Error::input("one new token is no decode").hint("set `max_new_tokens` to 2 or more"));
        };
        runs.rate_to(others)
    }
}

impl fmt::Display for Timing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cache = match (self.use_cache, self.cache_format) {
            (false, _) => "without cache".to_owned(),
            (true, None) => "with cache".to_owned(),
            (true, Some(dtype)) => format!("with {dtype} cache"),
        };
        let batch = if self.batch_size > 1 { format!("{} x ", self.batch_size) } else { String::new() };
        let (prompt, new, repeats) = (self.prompt_tokens, self.token_ms.len(), self.runs.runs.len());
        writeln!(f, "{batch}{prompt} prompt tokens + {new} new, {cache}, {repeats} repeats")?;
        // A small model's times end where others begin.
        let decimals = if self.runs.latency_s.median < 0.1 { 6 } else { 4 };
        writeln!(f, "  total_latency_s           {:.decimals$}", self.runs.latency_s)?;
        writeln!(f, "  tokens_per_sec            {:.1}", self.runs.tokens_per_s)?;
        writeln!(f, "  avg_latency_per_token_ms  {:.3}", self.runs.per_token_ms)?;
        writeln!(f, "  ttft_ms (prefill)         {:.3}", self.ttft_ms)?;
        if self.decode_runs.is_some() {
            writeln!(f, "  decode_tokens_per_sec     {:.1}", self.decode_tokens_per_s)?;
        }
        if let Some(of_limit) = &self.of_limit {
            writeln!(f, "  of memory's limit         {of_limit:.2}")?;
        }
        write!(f, "  {}", self.run)
    }
}

#[cfg(test)]
mod tests {
    use quantlab_kernels::thread_scope;

    use super::*;
    use crate::model::load_model_and_tokenizer;

    #[test]
    fn the_limit_takes_turns_and_is_paired_by_round() {
        let loaded = load_model_and_tokenizer(&["embedded"], "float32", Device::Cpu).unwrap();
        let options = TimingOptions { max_new_tokens: 3, repeats: 2, ..TimingOptions::default() };
        let without = loaded.time("Once upon a time", &options).unwrap();
        assert_eq!((without.gb_per_s, without.of_limit), (None, None));
        let options = TimingOptions { bandwidth: true, ..options };
        let with = loaded.time("Once upon a time", &options).unwrap();
        let (gb_per_s, of_limit) = (with.gb_per_s.unwrap(), with.of_limit.unwrap());
        assert_eq!((gb_per_s.n, of_limit.n), (2, 2));
        let bytes = loaded.model.info().bytes_per_token as f64;
        let [slowest, fastest] =
            [(with.decode_tokens_per_s.low, gb_per_s.high), (with.decode_tokens_per_s.high, gb_per_s.low)]
                .map(|(tokens_per_s, gb_per_s)| tokens_per_s * bytes / (1e9 * gb_per_s));
        assert!(slowest * 0.999 <= of_limit.low && of_limit.high <= fastest * 1.001, "{with}");
        assert!(with.to_string().contains("of memory's limit"));
        // Twice the tokens in three times the time.
        let decode = |tokens, seconds| Runs::of(vec![Metrics::of(tokens, seconds); 2]).ok();
        let [one, other] = [decode(4, 0.5), decode(8, 1.5)].map(|decode_runs| Timing { decode_runs, ..with.clone() });
        let times = other.times_as_fast_as(&one).unwrap();
        assert_eq!((times.median, times.n), (8.0 / 1.5 / 8.0, 2));
        // One token is no decode.
        let options = TimingOptions { max_new_tokens: 1, ..options };
        let one = loaded.time("Once upon a time", &options).unwrap();
        assert_eq!((one.of_limit, &one.decode_runs), (None, &None));
        assert!(one.times_as_fast_as(&with).is_err());
        let shown = |timing: &Timing| [timing.to_string(), timing.table().to_text()];
        assert!(shown(&one).iter().all(|text| !text.contains("decode_tokens_per_sec")), "{one}");
        assert!(shown(&with).iter().all(|text| text.contains("decode_tokens_per_sec")), "{with}");
        let runs = Runs::of(vec![Metrics::of(1, 0.000_412)]).unwrap();
        assert!(Timing { runs, ..one }.to_string().contains("0.000412 [0.000412, 0.000412]"));
    }

    #[test]
    fn a_timing_beside_another_computation_says_so() {
        let loaded = load_model_and_tokenizer(&["embedded"], "float32", Device::Cpu).unwrap();
        let options = TimingOptions { max_new_tokens: 2, warmup: 0, repeats: 1, ..TimingOptions::default() };
        // Other tests may have the helpers for a moment.
        let another = std::iter::repeat_with(thread_scope).find(|scope| scope.threads() == threads());
        let timing = std::thread::scope(|scope| {
            scope.spawn(|| loaded.time("Once upon a time", &options).unwrap()).join().unwrap()
        });
        drop(another);
        assert_eq!(timing.run.threads_granted, 1);
        let label = format!("| {}{} threads |", if threads() > 1 { "only 1 of " } else { "" }, threads());
        assert!(timing.to_string().contains(&label) && timing.note().contains(&label), "{timing}");
    }
}

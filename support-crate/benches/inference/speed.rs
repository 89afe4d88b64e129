//! How fast loaded models are, all of them in turn.

use quantlab::error::Result;
use quantlab::measure::{DecodeLimit, MemoryReader, Statistics, Timing, TimingOptions, TokenIds};
use quantlab::model::{CacheFormat, Loaded};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::MIB;
use crate::arguments::Arguments;

/// New tokens of a timed decode; the first belongs to the prefill.
const NEW_TOKENS: usize = 64;

/// The speed of one model with one batch size and one format of keys and values.
pub struct Speed {
    pub batch: usize,
    /// The format of keys and values that was asked for, and the memory that they took.
    pub cache: Option<CacheFormat>,
    pub cache_mib: f64,
    /// Of each length of the prompt, in the order of the arguments.
    pub prefill_ms: Vec<Statistics>,
    pub decode_tok_s: Statistics,
    pub bandwidth_gb_s: f64,
    /// Decode steps a second, of those that the bandwidth allows.
    pub fraction_of_limit: f64,
}

/// The runs that make a [`Speed`].
struct Runs<'a> {
    loaded: &'a Loaded,
    arguments: &'a Arguments,
    batch: usize,
    cache: Option<CacheFormat>,
    /// Of each length of the prompt.
    prefill_ms: Vec<Vec<f64>>,
    decode_tok_s: Vec<f64>,
}

/// Measures each model with each batch size and format of keys and values: for each model, the speeds.
pub fn measure(models: &[Loaded], arguments: &Arguments) -> Result<Vec<Vec<Speed>>> {
    let (batches, repeats) = (&arguments.batches, arguments.repeats);
    let formats = arguments.caches.iter().copied().map(Some).collect::<Vec<_>>();
    let formats = if formats.is_empty() { &[None][..] } else { &formats };
    let with_each = |loaded| {
        let each = batches.iter().flat_map(move |&batch| formats.iter().map(move |&cache| (batch, cache)));
        each.map(move |(batch, cache)| Runs::new(loaded, arguments, batch, cache))
    };
    let mut all: Vec<Runs> = models.iter().flat_map(with_each).collect();
    for runs in &mut all {
        runs.run()?;
        // That was to warm up.
        *runs = Runs::new(runs.loaded, arguments, runs.batch, runs.cache);
    }
    let (memory, mut bandwidths) = (MemoryReader::of(arguments.device)?, Vec::new());
    for round in 1..=repeats {
        eprintln!("round {round} of {repeats}: {} rows", all.len());
        bandwidths.push(memory.measure()?);
        all.iter_mut().try_for_each(Runs::run)?;
    }
    let speeds = |runs: &[Runs]| runs.iter().map(|runs| runs.speed(&bandwidths)).collect();
    all.chunks(batches.len() * formats.len()).map(speeds).collect()
}

/// The longest sequence that is measured, in tokens: a prompt with what comes after it.
pub fn context_needed(arguments: &Arguments) -> usize {
    let longest_prefill = arguments.prompts.iter().max().map_or(0, |tokens| tokens + 1);
    longest_prefill.max(arguments.context + NEW_TOKENS)
}

impl<'a> Runs<'a> {
    fn new(loaded: &'a Loaded, arguments: &'a Arguments, batch: usize, cache: Option<CacheFormat>) -> Self {
        let prefill_ms = vec![Vec::new(); arguments.prompts.len()];
        Self { loaded, arguments, batch, cache, prefill_ms, decode_tok_s: Vec::new() }
    }

    /// One run of each kind. Decode comes first: what the measurement before it put out of the caches comes
    /// back in the part of it that does not count.
    fn run(&mut self) -> Result<()> {
        self.decode_tok_s.push(self.time(self.arguments.context, NEW_TOKENS)?.decode_tokens_per_s.median);
        for (i, &tokens) in self.arguments.prompts.iter().enumerate() {
            let prefill_ms = self.time(tokens, 1)?.ttft_ms.median;
            self.prefill_ms[i].push(prefill_ms);
        }
        Ok(())
    }

    fn time(&self, prompt_tokens: usize, max_new_tokens: usize) -> Result<Timing> {
        let cache_format = self.cache;
        let options = TimingOptions { max_new_tokens, cache_format, warmup: 0, repeats: 1, ..TimingOptions::default() };
        self.loaded.time(TokenIds(&prompts(self.loaded, self.batch, prompt_tokens)), &options)
    }

    fn speed(&self, bandwidths_gb_s: &[f64]) -> Result<Speed> {
        let prefill_ms = self.prefill_ms.iter().map(|runs| Statistics::of(runs)).collect::<Result<_>>()?;
        let decode_tok_s = Statistics::of(&self.decode_tok_s)?;
        let bytes_per_token = self.loaded.model.info().bytes_per_token;
        // A step reads the weights once, for however many sequences.
        let rounds = self.decode_tok_s.iter().zip(bandwidths_gb_s);
        let fraction = |(tok_s, &gb_per_s): (&f64, &f64)| {
            DecodeLimit { bytes_per_token, gb_per_s }.fraction(tok_s / self.batch as f64)
        };
        let fraction_of_limit = Statistics::of(&rounds.map(fraction).collect::<Vec<_>>())?.median;
        let bandwidth_gb_s = Statistics::of(bandwidths_gb_s)?.median;
        // As `generate_tokens` allocates it: the last new token needs no room.
        let capacity = self.arguments.context + NEW_TOKENS - 1;
        let cache_mib = self.loaded.model.new_cache_in(self.cache, self.batch, capacity)?.bytes() as f64 / MIB;
        let (batch, cache) = (self.batch, self.cache);
        Ok(Speed { batch, cache, cache_mib, prefill_ms, decode_tok_s, bandwidth_gb_s, fraction_of_limit })
    }
}

/// Prompts of random tokens, the same in every run.
pub fn prompts(loaded: &Loaded, batch: usize, tokens: usize) -> Vec<Vec<u32>> {
    let mut random = StdRng::seed_from_u64(0);
    let vocab_size = loaded.model.info().vocab_size as u32;
    (0..batch).map(|_| (0..tokens).map(|_| random.random_range(0..vocab_size)).collect()).collect()
}

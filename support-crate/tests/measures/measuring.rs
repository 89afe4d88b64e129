//! Perplexity, memory and bandwidth: what is measured is what is there.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::common::fake::{fake_on, with_tokenizer_of};
use crate::common::{cases, gpt2_cases, tiny};
use quantlab::error::Result;
use quantlab::measure::{
    Clock, DecodeLimit, MemoryReader, PerplexityOptions, TimingOptions, TokenIds, available_memory, peak_memory,
    peak_memory_of, perplexity, perplexity_of_tokens, reset_peak_memory, resident_memory, time_in_turn,
};
use quantlab::model::{CacheFormat, CacheStorage, EngineModel, Loaded, Logits, ModelInfo, Step, best_device};
use quantlab::report::Timeline;
use quantlab_course::probe::{Costs, Machine};
use serde_json::Value;

const LOSS: f64 = 1e-5;
const BATCH_SIZES: [usize; 4] = [1, 2, 7, 64];

/// A clock that moves only when work is charged to it.
#[derive(Debug, Clone, Default)]
struct WorkClock(Arc<Mutex<f64>>);

impl WorkClock {
    fn charge(&self, seconds: f64) {
        *self.0.lock().unwrap() += seconds;
    }
}

impl Clock for WorkClock {
    fn now(&self) -> f64 {
        *self.0.lock().unwrap()
    }
}

/// What a [`Fake`]'s work takes, in seconds.
const WAIT: f64 = 1e4;
const NEW_CACHE: f64 = 10.0;
const STEP: f64 = 1.0;
const TOKEN: f64 = 0.01;
const FREE_CACHE: f64 = 1e3;

/// A model whose logits are known: those of a token depend on it and its position only.
#[derive(Debug)]
struct Fake {
    info: ModelInfo,
    logit: fn(token: u32, position: u32, next: u32) -> f32,
    clock: WorkClock,
}

#[derive(Debug)]
struct FakeCache(WorkClock);

impl Drop for FakeCache {
    fn drop(&mut self) {
        self.0.charge(FREE_CACHE);
    }
}

impl EngineModel for Fake {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn synchronize(&self) -> Result<()> {
        self.clock.charge(WAIT);
        Ok(())
    }

    /// Padding gets logits that would spoil whatever they went into.
    fn compute(&self, step: &Step<'_>, _storage: Option<&mut CacheStorage>) -> Result<Logits> {
        self.clock.charge(STEP + TOKEN * step.ids.len() as f64);
        let mut values = Vec::new();
        for (i, (&token, &position)) in step.ids.iter().zip(step.position_ids).enumerate() {
            let is_token = step.key_mask.is_none_or(|mask| mask[i]);
            let row = |next| if is_token { (self.logit)(token, position, next) } else { f32::NAN };
            values.extend((0..self.info.vocab_size as u32).map(row));
        }
        Logits::new(values, step.batch, self.info.vocab_size)
    }

    fn allocate_cache(&self, _batch: usize, _capacity: usize, _format: Option<CacheFormat>) -> Result<CacheStorage> {
        self.clock.charge(NEW_CACHE);
        Ok(CacheStorage::new(FakeCache(self.clock.clone())))
    }

    fn retain_rows(&self, _storage: &mut CacheStorage, _rows: &[usize], _past_len: usize) -> Result<()> {
        Ok(())
    }
}

fn loaded() -> Loaded {
    crate::common::load(tiny(), "float32")
}

fn fake(logit: fn(u32, u32, u32) -> f32) -> Loaded {
    on_clock(logit, WorkClock::default())
}

fn on_clock(logit: fn(u32, u32, u32) -> f32, clock: WorkClock) -> Loaded {
    let real = loaded();
    Loaded { model: Box::new(Fake { info: real.model.info().clone(), logit, clock }), ..real }
}

fn uneven(token: u32, position: u32, next: u32) -> f32 {
    ((token * 31 + position * 17 + next * 7) % 101) as f32 / 9.0
}

fn batches_of(batch_size: usize) -> PerplexityOptions {
    PerplexityOptions { batch_size, ..PerplexityOptions::default() }
}

fn facts(folder: &Path) -> Option<Value> {
    Some(serde_json::from_slice(&std::fs::read(folder.join("facts.json")).ok()?).unwrap())
}

/// The texts that the facts are about.
fn ragged(lengths: &[usize]) -> Vec<Vec<u32>> {
    let text = |(text, &len): (usize, &usize)| (0..len).map(|i| ((53 * i + 29 * text + 7) % 384) as u32).collect();
    lengths.iter().enumerate().map(text).collect()
}

#[test]
fn the_loss_is_that_of_transformers_whatever_the_batch_size() {
    for case in gpt2_cases() {
        let (loaded, expected) = (case.load(), f64::from(case.values("loss")[0]));
        for batch_size in BATCH_SIZES {
            let result = perplexity_of_tokens(&loaded, &case.ids("input_ids"), &batches_of(batch_size)).unwrap();
            assert!((result.mean_nll - expected).abs() < LOSS, "{}, {batch_size}: {}", case.name, result.mean_nll);
        }
    }
}

#[test]
fn texts_of_any_length_count_by_their_tokens() {
    let facts = &facts(tiny()).unwrap()["ragged"];
    let lengths: Vec<usize> = serde_json::from_value(facts["lengths"].clone()).unwrap();
    let expected = facts["mean_nll"].as_f64().unwrap();
    let (loaded, texts) = (loaded(), ragged(&lengths));
    for batch_size in BATCH_SIZES {
        let result = perplexity_of_tokens(&loaded, &texts, &batches_of(batch_size)).unwrap();
        assert_eq!(result.tokens, lengths.iter().sum::<usize>() - lengths.len());
        assert!((result.mean_nll - expected).abs() < LOSS, "{batch_size}: {}", result.mean_nll);
    }
    let mean_of_means = texts
        .chunks(1)
        .map(|text| perplexity_of_tokens(&loaded, text, &PerplexityOptions::default()).unwrap().mean_nll)
        .sum::<f64>()
        / texts.len() as f64;
    assert!((mean_of_means - expected).abs() > 0.1, "the texts tell the two apart");
}

#[test]
fn a_long_text_is_read_in_windows_as_in_the_documentation_of_transformers() {
    let facts = &facts(tiny()).unwrap()["strided"];
    let number = |key: &str| facts[key].as_u64().unwrap() as usize;
    let ids: Vec<u32> = (0..number("tokens")).map(|i| ((37 * i + 11) % 384) as u32).collect();
    for batch_size in BATCH_SIZES {
        let options = PerplexityOptions { window: Some(number("window")), stride: Some(number("stride")), batch_size };
        let result = perplexity_of_tokens(&loaded(), std::slice::from_ref(&ids), &options).unwrap();
        assert!((result.mean_nll - facts["mean_nll"].as_f64().unwrap()).abs() < LOSS, "{}", result.mean_nll);
        assert_eq!(result.tokens, ids.len() - 1);
    }
}

#[test]
fn equal_logits_give_equal_sums_to_the_last_bit() {
    let (model, texts) = (fake(uneven), ragged(&[40, 3, 170, 64, 2, 9, 1, 0, 65]));
    let results = BATCH_SIZES.map(|size| perplexity_of_tokens(&model, &texts, &batches_of(size)).unwrap());
    assert!(results.iter().all(|result| result.mean_nll == results[0].mean_nll));
    // One window each, with the sums written out.
    let texts = ragged(&[40, 3, 9]);
    let nll = |ids: &[u32], t: usize| {
        let logit = |next| f64::from(uneven(ids[t - 1], t as u32 - 1, next));
        (0..384).map(|next| logit(next).exp()).sum::<f64>().ln() - logit(ids[t])
    };
    let expected: f64 = texts.iter().flat_map(|ids| (1..ids.len()).map(|t| nll(ids, t))).sum();
    let result = perplexity_of_tokens(&model, &texts, &PerplexityOptions::default()).unwrap();
    assert!((result.mean_nll - expected / 49.0).abs() < 1e-6, "{} and {}", result.mean_nll, expected / 49.0);
}

#[test]
fn uniform_logits_give_the_size_of_the_vocabulary() {
    let model = fake(|_, _, _| 3.25);
    for batch_size in BATCH_SIZES {
        let result = perplexity_of_tokens(&model, &ragged(&[150, 2, 30]), &batches_of(batch_size)).unwrap();
        assert!((result.perplexity / 384.0 - 1.0).abs() < 1e-12, "{}", result.perplexity);
    }
}

#[test]
fn a_certain_model_has_a_perplexity_of_one() {
    let model = fake(|token, _, next| if next == (token + 53) % 384 { 200.0 } else { 0.0 });
    let result = perplexity_of_tokens(&model, &ragged(&[30, 20]), &PerplexityOptions::default()).unwrap();
    assert!((result.perplexity - 1.0).abs() < 1e-12, "{}", result.perplexity);
}

#[test]
fn what_cannot_be_scored_is_an_error() {
    let message = |model: &Loaded, texts: &[Vec<u32>], options: &PerplexityOptions| {
        perplexity_of_tokens(model, texts, options).unwrap_err().to_string()
    };
    let (real, texts) = (loaded(), ragged(&[30, 5]));
    for (name, broken) in [
        ("NaN", fake(|_, _, _| f32::NAN)),
        // One logit among many.
        ("NaN", fake(|token, _, next| if token == 7 && next == 300 { f32::NAN } else { 0.0 })),
        ("inf", fake(|_, _, next| if next == 60 { f32::NEG_INFINITY } else { 0.0 })),
    ] {
        let text = message(&broken, &texts, &PerplexityOptions::default());
        assert!(text.contains(&format!("the model's loss is {name}")) && text.contains("hint"), "{text}");
    }
    for nothing in [&[][..], &[vec![]], &[vec![5], vec![6]]] {
        assert!(message(&real, nothing, &PerplexityOptions::default()).contains("nothing to predict"));
    }
    assert!(message(&real, &texts, &batches_of(0)).contains("`batch_size` is 0"));
    assert!(perplexity(&real, &[""; 0], &PerplexityOptions::default()).is_err());
}

#[test]
fn the_footprint_is_what_transformers_reports() {
    let known = facts(tiny()).unwrap();
    let footprint = loaded().footprint();
    assert_eq!(known["parameter_bytes"], footprint.parameter_bytes);
    assert!((footprint.mib() - footprint.total_bytes() as f64 / 1024.0 / 1024.0).abs() < 1e-12);
    assert_eq!(footprint.to_string(), "0.69 MiB: 0.68 of parameters and 0.01 of buffers");
    assert!(footprint.table().to_text().contains("0.69"));
    for case in cases() {
        let Some(known) = facts(&case.folder) else { continue };
        let footprint = case.load().footprint();
        assert_eq!(known["memory_footprint_bytes"], footprint.total_bytes(), "{}", case.name);
    }
}

#[test]
fn a_batch_is_timed_and_counted_as_one() {
    let (loaded, n) = (loaded(), 6);
    let prompts = ragged(&[9, 4, 7]);
    let options = TimingOptions { max_new_tokens: n, warmup: 0, repeats: 5, ..TimingOptions::default() };
    let timing = loaded.time(TokenIds(&prompts), &options).unwrap();
    assert_eq!((timing.batch_size, timing.token_ms.len(), timing.prompt_tokens), (3, n, 9));
    assert_eq!((timing.runs.runs.len(), timing.runs.runs[0].tokens_generated), (5, 3 * n));
    assert!((timing.runs.tokens_per_s.median * timing.runs.latency_s.median / (3 * n) as f64 - 1.0).abs() < 1e-9);
    assert!(timing.to_string().starts_with("3 x 9 prompt tokens + 6 new"), "{timing}");
    let table = timing.table().to_text();
    assert!(table.lines().any(|line| line.starts_with("tokens_generated") && line.contains("18")), "{table}");
    let one = loaded.time(&["the quick brown fox"], &options).unwrap();
    assert_eq!(one.batch_size, 1);
    assert_eq!(one.prompt_tokens, loaded.time("the quick brown fox", &options).unwrap().prompt_tokens);
}

#[test]
fn a_timing_ends_when_the_last_token_is_known() {
    let clock = WorkClock::default();
    let loaded = on_clock(uneven, clock.clone());
    let prompts = ragged(&[9, 9]);
    let work = [(&loaded, TokenIds(&prompts))];
    let options = TimingOptions { max_new_tokens: 4, ..TimingOptions::default() };
    let timing = &time_in_turn(&clock, &work, &options).unwrap()[0];
    let near = |seconds: f64, expected: f64| assert!((seconds - expected).abs() < 1e-6, "{seconds}, {expected}");
    // Each prefill makes a cache; waiting for the device comes before it, giving the cache back after the last token.
    let (prefill, step) = (NEW_CACHE + STEP + 18.0 * TOKEN, STEP + 2.0 * TOKEN);
    near(timing.ttft_ms.median, 1e3 * prefill);
    timing.token_ms[1..].iter().for_each(|&ms| near(ms, 1e3 * step));
    timing.runs.runs.iter().for_each(|run| near(run.total_latency_s, prefill + 3.0 * step));
    near(timing.decode_tokens_per_s.median, 2.0 / step);
    assert!(clock.now() > 4.0 * (WAIT + FREE_CACHE), "all of that happened");
}

#[test]
fn another_model_begins_each_round() {
    let machine = Machine::new(Costs::PLAIN);
    let models = [0; 3].map(|_| with_tokenizer_of(fake_on(&machine, 384, 64, |_, _| vec![0.0; 384]), loaded()));
    let options = TimingOptions { max_new_tokens: 1, ..TimingOptions::default() };
    time_in_turn(&machine.clock(), &models.each_ref().map(|model| (model, "fox")), &options).unwrap();
    let order: Vec<usize> = machine.passes().iter().map(|pass| pass.model).collect();
    assert_eq!(order, [[0, 1, 2], [1, 2, 0], [2, 0, 1], [0, 1, 2]].concat());
}

#[test]
fn a_measured_run_is_drawn_by_its_medians_and_says_so() {
    let medians = "each step is a median of its runs, the total their sum";
    let drawn = |repeats| {
        let options = TimingOptions { max_new_tokens: 3, repeats, ..TimingOptions::default() };
        Timeline::new("t").timing("fox", &loaded().time("fox", &options).unwrap()).unwrap()
    };
    assert!(drawn(2).table().to_text().contains(medians));
    assert!(!drawn(1).table().to_text().contains(medians));
    assert!(!drawn(2).note("on a machine").table().to_text().contains(medians));
}

#[test]
fn a_batch_that_cannot_be_generated_is_an_error() {
    let (loaded, options) = (loaded(), TimingOptions { max_new_tokens: 4, ..TimingOptions::default() });
    let message = |prompts: &[Vec<u32>]| loaded.time(TokenIds(prompts), &options).unwrap_err().to_string();
    assert!(message(&[]).contains("there are no prompts"));
    assert!(message(&[vec![1], vec![]]).contains("prompt 1: the prompt is empty"));
    assert!(message(&[vec![1], vec![384]]).contains("token id 384 is beyond"));
    assert!(loaded.time(&["fox", ""], &options).is_err());
    let none = TimingOptions { repeats: 0, ..options };
    assert!(loaded.time(TokenIds(&[vec![1]]), &none).unwrap_err().to_string().contains("`repeats` is 0"));
}

#[test]
fn counts_without_end_are_an_error_like_any_other() {
    let (loaded, most) = (loaded(), usize::MAX);
    let message = |prompt: &[u32], options: TimingOptions| {
        loaded.time(TokenIds(&[prompt.to_vec()]), &options).unwrap_err().to_string()
    };
    let endless = TimingOptions { repeats: most, warmup: most, ..TimingOptions::default() };
    assert!(message(&[], endless).contains("the prompt is empty"));
    for (max_new_tokens, expected) in [(0, "must be at least 1"), (most, "must be below the model's context of 64")] {
        let text = message(&[1], TimingOptions { max_new_tokens, ..TimingOptions::default() });
        assert!(text.contains(&format!("`max_new_tokens` is {max_new_tokens};")) && text.contains(expected), "{text}");
    }
}

/// What is measured of the whole process is measured by one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static PROCESS: Mutex<()> = Mutex::new(());
    PROCESS.lock().unwrap_or_else(PoisonError::into_inner)
}

const MIB: usize = 1 << 20;

#[test]
#[cfg(target_os = "linux")]
fn memory_that_is_touched_is_resident() {
    let _alone = alone();
    let before = resident_memory().unwrap();
    assert!(before > MIB && before < 1 << 40, "{before}");
    assert!(available_memory().is_some_and(|free| free > 64 * MIB), "there is room for this test");
    let block = vec![1_u8; 64 * MIB];
    let with_block = resident_memory().unwrap();
    assert!((48 * MIB..96 * MIB).contains(&(with_block - before)), "{before} and {with_block}");
    assert!(peak_memory().unwrap() >= before + 48 * MIB);
    drop(block);
    assert!(resident_memory().unwrap() < with_block - 48 * MIB);
    assert!(peak_memory().unwrap() >= before + 48 * MIB, "the peak stays");
    reset_peak_memory().unwrap();
    assert!(peak_memory().unwrap() < before + 48 * MIB, "until it is reset");
}

#[test]
#[cfg(target_os = "linux")]
fn the_peak_of_a_closure_is_what_it_took_at_once() {
    let _alone = alone();
    let touch = |mib: usize| vec![1_u8; mib * MIB].iter().map(|&byte| usize::from(byte)).sum::<usize>();
    let (sum, growth) = peak_memory_of(|| touch(64) + touch(64)).unwrap();
    assert_eq!(sum, 128 * MIB);
    assert!((48 * MIB..96 * MIB).contains(&growth), "one after the other: {growth}");
    let (_, growth) = peak_memory_of(|| ()).unwrap();
    assert!(growth < 32 * MIB, "what came before does not count: {growth}");
}

#[test]
fn the_bandwidth_is_plausible() {
    let _alone = alone();
    // Of the device that models take unasked, which is the CPU where there is no GPU: a GPU reads faster.
    let of_best = MemoryReader::of(best_device()).unwrap().gb_per_s();
    assert!((0.5..50_000.0).contains(&of_best), "{of_best}");
    let gb_per_s = MemoryReader::new().unwrap().gb_per_s();
    assert!((0.5..5000.0).contains(&gb_per_s), "{gb_per_s}");
    let limit = DecodeLimit { bytes_per_token: 1_000_000_000, gb_per_s };
    assert!((limit.tokens_per_s() - gb_per_s).abs() < 1e-9);
    assert!(limit.table().to_text().contains("tokens/s"));
}

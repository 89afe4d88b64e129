//! Generating, timing and scoring from a learner's point of view.

use crate::common::copy::Copy;
use crate::common::fake::{saying, with_tokenizer_of};
use crate::common::tiny;
use quantlab::generate::{
    FinishReason, GenerateOptions, Generation, generate, generate_batch, generate_streaming, generate_tokens,
};
use quantlab::measure::{
    PerplexityOptions, Runs, TimingOptions, WallClock, perplexity, perplexity_of_tokens, prompt_of_tokens, time_in_turn,
};
use quantlab::model::{Engine, LoadOptions, Loaded, LogitPositions, TokenBatch, load_model};

fn loaded() -> Loaded {
    crate::common::load(tiny(), "float32")
}

#[test]
fn text_goes_on_from_a_prompt() {
    let options = GenerateOptions { max_new_tokens: 10, stop_at_eos: false, ..GenerateOptions::default() };
    let generation = generate(&loaded(), "once upon a time", &options).unwrap();
    assert_eq!((generation.tokens.len(), generation.prompt.as_str()), (10, "once upon a time"));
    assert!(generation.prompt_tokens > 0 && !generation.text.is_empty());
    assert!(!generation.text.contains("once upon a time"), "the text is the new part only");
}

#[test]
fn one_prompt_of_ids_goes_on_as_its_text_does() {
    let loaded = loaded();
    let options = GenerateOptions { max_new_tokens: 10, ..GenerateOptions::default() };
    let text = generate(&loaded, "once upon a time", &options).unwrap();
    let ids = loaded.tokenizer.encode("once upon a time").unwrap();
    let found = loaded.generate_tokens(&ids, &options).unwrap();
    assert_eq!(found.tokens, text.tokens);
    assert_eq!((found.prompt_tokens, found.finish_reason), (ids.len(), text.finish_reason));

    let message = |ids: &[u32], options| loaded.generate_tokens(ids, &options).unwrap_err().to_string();
    assert!(message(&[], options.clone()).contains("the prompt is empty"));
    let stop_strings = vec!["time".to_owned()];
    assert!(message(&ids, GenerateOptions { stop_strings, ..options }).contains("stop_strings"));
}

#[test]
fn prompts_that_cannot_be_continued() {
    let loaded = loaded();
    let message = |prompt: &str, max_new_tokens| {
        let options = GenerateOptions { max_new_tokens, ..GenerateOptions::default() };
        generate(&loaded, prompt, &options).unwrap_err().to_string()
    };
    assert!(message("", 5).contains("the prompt is empty"));
    assert!(message("fox", 0).contains("`max_new_tokens` is 0"));
    let long = prompt_of_tokens(&loaded, "the fox ", 60).unwrap();
    let text = message(&long.text, 10);
    assert!(
        text.contains(&format!("{} tokens and 10 new ones", long.tokens)) && text.contains("context of 64"),
        "{text}"
    );
    // Exactly full is fine.
    let options =
        GenerateOptions { max_new_tokens: 64 - long.tokens, stop_at_eos: false, ..GenerateOptions::default() };
    assert_eq!(generate(&loaded, &long.text, &options).unwrap().tokens.len(), 64 - long.tokens);
}

#[test]
fn the_token_that_ends_a_text_stops_unless_told_otherwise() {
    let loaded = loaded();
    let eos = loaded.model.info().eos_token_ids[0];
    let options = |stop_at_eos, min_new_tokens| GenerateOptions {
        max_new_tokens: 20,
        min_new_tokens,
        stop_at_eos,
        ..GenerateOptions::default()
    };
    let run = |first: u32, options| {
        let found = generate_tokens(&*loaded.model, &[vec![first]], &options, &mut |_, _| ()).unwrap();
        found.into_iter().next().unwrap().tokens
    };
    // A prompt after which the model chooses to end within 20 tokens.
    let first = (1..384).find(|&first| run(first, options(false, 0)).contains(&eos)).expect("such a prompt");
    let stopped = run(first, options(true, 0));
    assert_eq!(stopped.iter().position(|&token| token == eos), Some(stopped.len() - 1));
    assert_eq!(run(first, options(false, 0)).len(), 20);
    for stop_at_eos in [true, false] {
        let forced = run(first, options(stop_at_eos, 20));
        assert!(forced.len() == 20 && !forced.contains(&eos), "{stop_at_eos}");
    }
}

/// Models that chat often name the end of a reply there alone, and transformers' `generate` stops at it.
#[test]
fn the_generation_config_names_tokens_that_end_a_text() {
    let copy = Copy::of(tiny());
    let write = |json: &str| std::fs::write(copy.path("generation_config.json"), json).unwrap();
    let ends = |loaded: &Loaded| loaded.model.info().eos_token_ids.clone();
    let options = |stop_at_eos| GenerateOptions { max_new_tokens: 10, stop_at_eos, ..GenerateOptions::default() };
    let plain = copy.load().unwrap();
    assert_eq!(ends(&plain), [0], "without such a file");
    let whole = generate(&plain, "once upon a time", &options(false)).unwrap().tokens;
    let end = *whole.iter().find(|&&token| token != 0).unwrap();
    write(&format!(r#"{{"eos_token_id": [{end}, 0, null]}}"#));
    let loaded = copy.load().unwrap();
    assert_eq!(ends(&loaded), [0, end]);
    let found = generate(&loaded, "once upon a time", &options(true)).unwrap();
    let last = whole.iter().position(|token| [0, end].contains(token)).unwrap();
    assert_eq!((&found.tokens[..], found.finish_reason), (&whole[..=last], FinishReason::Eos));
    write(r#"{"max_length": 20}"#);
    assert_eq!(ends(&copy.load().unwrap()), [0]);
    write("{");
    let error = copy.load().unwrap_err().to_string();
    assert!(error.contains("generation_config.json"), "{error}");
}

/// What a model that says `script` gives, and the pieces of text in which it came.
fn said(script: &[u32], options: &GenerateOptions) -> (Generation, Vec<String>) {
    let loaded = loaded();
    let vocab_size = loaded.model.info().vocab_size;
    let loaded = with_tokenizer_of(saying(script.to_vec(), vocab_size), loaded);
    let options = GenerateOptions { max_new_tokens: script.len(), ..options.clone() };
    let mut pieces = Vec::new();
    let on_text = |row, text: &str| {
        assert_eq!(row, 0);
        pieces.push(text.to_owned());
    };
    let mut generations = generate_streaming(&loaded, &["a"], &options, on_text).unwrap();
    let generation = generations.remove(0);
    assert_eq!(generation.text, pieces.concat());
    (generation, pieces)
}

#[test]
fn a_stop_string_is_not_in_the_text_but_its_tokens_are_there() {
    let tokenizer = loaded().tokenizer;
    let script = tokenizer.encode("the quick brown fox").unwrap();
    let stop_strings =
        |stop: &str| GenerateOptions { stop_strings: vec![stop.to_owned()], ..GenerateOptions::default() };
    let (generation, _) = said(&script, &stop_strings("k brown"));
    assert_eq!((generation.text.as_str(), generation.finish_reason), ("the quic", FinishReason::StopString));
    assert!(generation.tokens.len() < script.len() && script.starts_with(&generation.tokens));
    assert!(tokenizer.decode(&generation.tokens).unwrap().contains("k brown"));
    let (generation, _) = said(&script, &stop_strings("cat"));
    assert_eq!((generation.text.as_str(), generation.finish_reason), ("the quick brown fox", FinishReason::Length));
    let expected = format!("1 prompt tokens, {} new tokens, greedy, finish_reason length", script.len());
    assert_eq!(generation.note(), expected);
}

#[test]
fn text_comes_in_whole_characters() {
    let script = loaded().tokenizer.encode("caf\u{e9} \u{1F600}").unwrap();
    let (generation, pieces) = said(&script, &GenerateOptions::default());
    assert_eq!(generation.text, "caf\u{e9} \u{1F600}");
    assert!(script.len() > pieces.len() && pieces.iter().all(|piece| !piece.contains('\u{FFFD}')), "{pieces:?}");
    // Cut off inside a character, what there is of it still shows.
    let (generation, _) = said(&script[..script.len() - 1], &GenerateOptions::default());
    assert_eq!(generation.text, "caf\u{e9} \u{FFFD}");
}

#[test]
fn texts_of_a_batch_are_those_of_its_prompts() {
    let loaded = loaded();
    let prompts = ["once upon a time", "fox", "the lazy dog jumps"];
    let plain = GenerateOptions { max_new_tokens: 10, stop_at_eos: false, ..GenerateOptions::default() };
    let text = generate(&loaded, prompts[1], &plain).unwrap().text;
    let options = GenerateOptions { stop_strings: vec![text.chars().skip(3).take(2).collect()], ..plain };
    let together = generate_batch(&loaded, &prompts, &options).unwrap();
    let alone = prompts.map(|prompt| generate(&loaded, prompt, &options).unwrap());
    assert_eq!(together, alone);
    assert_eq!(together[1].finish_reason, FinishReason::StopString);
    assert!(text.starts_with(&together[1].text) && together[1].text.len() < text.len());
}

#[test]
fn a_cache_says_what_it_cannot_hold() {
    let loaded = loaded();
    let model = &*loaded.model;
    assert!(model.new_cache(0, 8).is_err());
    assert!(
        model.new_cache(1, 65).unwrap_err().to_string().contains("65 tokens is longer than the model's context of 64")
    );
    let tokens = TokenBatch::single(&[1, 2, 3]).unwrap();
    let mut small = model.new_cache(1, 2).unwrap();
    assert!(model.forward(&tokens, Some(&mut small), LogitPositions::Last).is_err());
    let mut cache = model.new_cache(1, 8).unwrap();
    let first = model.forward(&tokens, Some(&mut cache), LogitPositions::Last).unwrap();
    assert_eq!(cache.past_len(), 3);
    cache.reset();
    assert_eq!(model.forward(&tokens, Some(&mut cache), LogitPositions::Last).unwrap(), first);
    let beyond = TokenBatch::single(&[384]).unwrap();
    assert!(
        model.forward(&beyond, None, LogitPositions::Last).unwrap_err().to_string().contains("token id 384 is beyond")
    );
    let long = TokenBatch::single(&[1; 65]).unwrap();
    assert!(model.forward(&long, None, LogitPositions::Last).unwrap_err().to_string().contains("65 tokens exceed"));
}

#[test]
fn a_cache_of_another_model_is_refused() {
    // Also one of the same sizes, and of the same files.
    let tokens = TokenBatch::single(&[1]).unwrap();
    for engine in Engine::ALL {
        let options = LoadOptions { engine: Some(engine), ..LoadOptions::default() };
        let [own, other] =
            [(); 2].map(|()| load_model(&[crate::common::tiny().to_str().unwrap()], &options).unwrap().model);
        for mut cache in [other.new_cache(1, 8).unwrap(), loaded().model.new_cache(1, 8).unwrap()] {
            let forward = own.forward(&tokens, Some(&mut cache), LogitPositions::Last).map(drop);
            for error in [forward.unwrap_err(), own.retain(&mut cache, &[0]).unwrap_err()] {
                assert!(error.to_string().contains("another model"), "{engine}: {error}");
            }
        }
    }
}

#[test]
fn a_timing_adds_up_and_says_what_it_is_of() {
    let loaded = loaded();
    let options = TimingOptions { max_new_tokens: 12, repeats: 5, ..TimingOptions::default() };
    let timing = loaded.time("the quick brown fox", &options).unwrap();
    let Runs { runs, latency_s: latency, tokens_per_s: throughput, per_token_ms: per_token } = &timing.runs;
    assert_eq!((runs.len(), timing.token_ms.len()), (5, 12));
    assert!(runs.iter().all(|run| run.tokens_generated == 12));
    assert!(timing.prompt_tokens > 0 && timing.ttft_ms.median > 0.0 && timing.decode_tokens_per_s.median > 0.0);
    assert!((throughput.median - 12.0 / latency.median).abs() < 1e-6 * throughput.median);
    assert!((per_token.median - latency.median * 1000.0 / 12.0).abs() < 1e-9);
    assert!(latency.low <= latency.median && latency.median <= latency.high);
    let engine = if quantlab_kernels::Isa::best().name() == "amx" { "kernels (amx)" } else { "kernels" };
    assert_eq!((timing.run.engine.as_str(), timing.run.dtype.as_str()), (engine, "float32"));
    let text = timing.to_string();
    for part in [
        "total_latency_s",
        "tokens_per_sec",
        "avg_latency_per_token_ms",
        "ttft_ms",
        "kernels",
        "cpu",
        "float32",
        "threads",
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    assert!(serde_json::to_value(&timing).unwrap()["run"]["device"] == "cpu");
}

#[test]
fn one_token_has_no_decode_and_no_repeats_are_refused() {
    let loaded = loaded();
    let timing = loaded.time("fox", &TimingOptions { max_new_tokens: 1, ..TimingOptions::default() }).unwrap();
    assert_eq!(timing.decode_tokens_per_s.median, 0.0);
    let none = loaded.time("fox", &TimingOptions { repeats: 0, ..TimingOptions::default() });
    assert!(none.unwrap_err().to_string().contains("`repeats` is 0"));
    assert!(loaded.time("", &TimingOptions::default()).unwrap_err().to_string().contains("empty"));
}

#[test]
fn prompts_reach_the_wanted_length() {
    let loaded = loaded();
    for wanted in [1, 2, 7, 30, 55] {
        let prompt = prompt_of_tokens(&loaded, "the quick brown fox ", wanted).unwrap();
        assert_eq!(loaded.tokenizer.encode(&prompt.text).unwrap().len(), prompt.tokens);
        assert!(prompt.tokens >= wanted && prompt.text.starts_with("the quick brown fox "));
    }
    // Twice, `note` is `not`, `en`, `o`, `t` and `e`.
    let prompt = prompt_of_tokens(&loaded, "note", 5).unwrap();
    assert_eq!((prompt.text.as_str(), prompt.tokens), ("notenote", 5));
    // The last one reaches 63 only by going beyond the context of 64.
    for (base, tokens) in [("", 5), ("fox", 0), ("fox", 64), ("the quick brown fox ", 63)] {
        assert!(prompt_of_tokens(&loaded, base, tokens).is_err());
    }
}

#[test]
fn perplexity_of_text_counts_bytes_and_windows() {
    let loaded = loaded();
    let text = "the quick brown fox jumps over the lazy dog ".repeat(12);
    let options = PerplexityOptions::default();
    let whole = perplexity(&loaded, &[&text], &options).unwrap();
    assert!(whole.bytes.unwrap() < text.len() && whole.bytes.unwrap() > text.len() - 20);
    let bits = whole.mean_nll * whole.tokens as f64 / std::f64::consts::LN_2 / whole.bytes.unwrap() as f64;
    assert!((whole.bits_per_byte.unwrap() - bits).abs() < 1e-12);
    // The mean is over tokens, not over texts.
    let two = perplexity(&loaded, &[&text, "a dog"], &options).unwrap();
    let other = perplexity(&loaded, &["a dog"], &options).unwrap();
    let weighted = (whole.mean_nll * whole.tokens as f64 + other.mean_nll * other.tokens as f64) / two.tokens as f64;
    assert!((two.mean_nll - weighted).abs() < 1e-9);
    for empty in [&[][..], &[""], &["", ""]] {
        assert!(perplexity(&loaded, empty, &options).unwrap_err().to_string().contains("nothing to predict"));
    }
    assert!(perplexity_of_tokens(&loaded, &[vec![1]], &options).is_err());
    assert!(perplexity_of_tokens(&loaded, &[vec![1, 999]], &options).unwrap_err().to_string().contains("token id 999"));
}

#[test]
fn models_timed_in_turn_have_all_their_repeats() {
    let (one, two) = (loaded(), loaded());
    let options = TimingOptions { max_new_tokens: 3, repeats: 4, ..TimingOptions::default() };
    let timings = time_in_turn(&WallClock, &[(&one, "a b c"), (&two, "a b c")], &options).unwrap();
    assert_eq!(timings.len(), 2);
    assert!(timings.iter().all(|timing| timing.runs.runs.len() == 4 && timing.token_ms.len() == 3));
    assert!(time_in_turn::<&str>(&WallClock, &[], &options).unwrap().is_empty());
}

//! Caches that are cut, caches in fewer bits, and logits of some last positions.

use crate::common::place::Place;
use crate::common::tiny;
use quantlab::generate::{GenerateOptions, generate};
use quantlab::model::{CacheFormat, Engine, KvCache, Loaded, LogitPositions, Logits, TokenBatch, load_model};

fn load(folder: &str, place: impl Into<Place>) -> Loaded {
    load_model(&[folder], &place.into().options()).unwrap()
}

/// GPT-2, and a Llama with rotary positions and heads in groups.
fn models() -> Vec<(String, Loaded)> {
    let llama = tiny().with_file_name("llama-tiny");
    let folders = [tiny(), &llama].map(|folder| folder.to_str().unwrap().to_owned());
    let all = folders.iter().flat_map(|folder| Place::all().map(move |place| (folder, place)));
    all.map(|(folder, place)| (format!("{folder} by {place}"), load(folder, place))).collect()
}

fn step(loaded: &Loaded, cache: &mut KvCache, rows: &[&[u32]]) -> Logits {
    let rows: Vec<Vec<u32>> = rows.iter().map(|row| row.to_vec()).collect();
    loaded.model.forward(&TokenBatch::new(&rows).unwrap(), Some(cache), LogitPositions::Last).unwrap()
}

#[test]
fn what_was_guessed_wrong_is_as_if_it_had_not_been() {
    for (name, loaded) in models() {
        let mut cache = loaded.model.new_cache(2, 12).unwrap();
        let padded = TokenBatch::new(&[vec![5, 6, 7], vec![0, 8, 9]]).unwrap();
        let padded = padded.with_attention_mask(&[vec![true; 3], vec![false, true, true]]).unwrap();
        loaded.model.forward(&padded, Some(&mut cache), LogitPositions::Last).unwrap();
        let expected = step(&loaded, &mut cache, &[&[10, 11], &[12, 13]]);
        loaded.model.truncate(&mut cache, 3).unwrap();
        step(&loaded, &mut cache, &[&[20, 21, 22, 23], &[24, 25, 26, 27]]);
        loaded.model.truncate(&mut cache, 3).unwrap();
        assert_eq!(cache.past_len(), 3);
        assert_eq!(step(&loaded, &mut cache, &[&[10, 11], &[12, 13]]), expected, "{name}");
        let error = loaded.model.truncate(&mut cache, 6).unwrap_err().to_string();
        assert!(error.contains("a cache of 5 tokens cannot be cut to 6"), "{error}");
    }
}

#[test]
fn logits_of_the_last_positions_are_those_of_all() {
    for (name, loaded) in models() {
        let tokens = TokenBatch::new(&[vec![5, 6, 7, 8, 9], vec![15, 16, 17, 18, 0]]).unwrap();
        let mask = [vec![true; 5], vec![true, true, true, true, false]];
        let tokens = tokens.with_attention_mask(&mask).unwrap();
        let all = loaded.model.forward(&tokens, None, LogitPositions::All).unwrap();
        for count in 1..=3 {
            let some = loaded.model.forward(&tokens, None, LogitPositions::LastN(count)).unwrap();
            assert_eq!(some.positions(), count);
            for (row, tokens) in [(0, 5), (1, 4)] {
                for position in 0..count {
                    let (some, all) = (some.row(row, position), all.row(row, tokens - count + position));
                    let distance = some.iter().zip(all).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
                    assert!(distance < 1e-4, "{name}: {distance}");
                }
            }
        }
        for count in [0, 6] {
            let error = loaded.model.forward(&tokens, None, LogitPositions::LastN(count)).unwrap_err().to_string();
            assert!(
                error.contains(&format!(
                    "the last {count} positions were asked for; the number must lie between 1 and 5"
                )),
                "{error}"
            );
        }
    }
}

/// Half the memory, nearly the same logits, and the same ones however the tokens come.
#[test]
fn keys_and_values_in_float16() {
    for folder in ["gpt2-tiny", "llama-tiny"] {
        let loaded = load(tiny().with_file_name(folder).to_str().unwrap(), Engine::Kernels);
        let ids: Vec<u32> = (0..20).map(|i| (i * 7 + 3) % 300).collect();
        let cache = |dtype| loaded.model.new_cache_in(dtype, 1, ids.len()).unwrap();
        let whole = |dtype| step(&loaded, &mut cache(dtype), &[&ids]);
        let [float32, float16] = [None, Some(CacheFormat::Float16)].map(whole);
        assert_eq!(whole(Some(CacheFormat::Float32)), float32);
        let spread = float32.values().iter().map(|logit| logit.abs()).fold(0.0, f32::max);
        let distance = float32.values().iter().zip(float16.values()).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(distance > 0.0 && distance < 2e-3 * spread, "{folder}: {distance} of {spread}");
        let mut one_by_one = cache(Some(CacheFormat::Float16));
        let last = ids.iter().map(|&id| step(&loaded, &mut one_by_one, &[&[id]])).last().unwrap();
        assert_eq!(last, float16, "{folder}: not the same to the bit");
        // Of a sequence that stays when another goes, too.
        let mut two = loaded.model.new_cache_in(Some(CacheFormat::Float16), 2, ids.len()).unwrap();
        let (first, rest) = ids.split_at(13);
        step(&loaded, &mut two, &[&[1; 13], first]);
        loaded.model.retain(&mut two, &[1]).unwrap();
        assert_eq!(step(&loaded, &mut two, &[rest]), float16, "{folder}");
    }
}

#[test]
fn text_from_a_cache_in_float16_and_formats_that_there_are_not() {
    let options = GenerateOptions { cache_format: Some(CacheFormat::Float16), max_new_tokens: 5, ..Default::default() };
    let text = generate(&load(tiny().to_str().unwrap(), Engine::Kernels), "once upon a time", &options).unwrap();
    assert_eq!(text.tokens.len(), 5);
    for (engine, dtype) in [
        (Engine::Kernels, CacheFormat::BFloat16),
        (Engine::Candle, CacheFormat::Float16),
        (Engine::Tch, CacheFormat::Float16),
    ] {
        let loaded = load(tiny().to_str().unwrap(), engine);
        let options = GenerateOptions { cache_format: Some(dtype), ..options.clone() };
        let error = generate(&loaded, "once upon a time", &options).unwrap_err().to_string();
        let expected = format!("keys and values in {dtype} are not supported by {engine} on cpu");
        assert!(error.to_lowercase().contains(&expected), "{error}");
    }
}

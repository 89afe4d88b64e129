//! Keys and values in int8 and int4: nearly the same logits, the same however tokens come and whatever is beside them.

use crate::common::copy::{CONFIG, Copy};
use crate::common::tiny;
use proptest::prelude::*;
use quantlab::generate::{Draft, GenerateOptions, generate_tokens};
use quantlab::measure::compare_caches;
use quantlab::model::{
    CacheFormat, DecoderConfig, Engine, KvCache, LoadOptions, Loaded, LogitPositions, Logits, TokenBatch, load_model,
};
use quantlab::source::ModelId;

const QUANTIZED: [CacheFormat; 2] = [CacheFormat::Int8, CacheFormat::Int4];

/// Models that read 512 tokens: GPT-2, a Llama with heads in groups, and one with a window of 6 tokens.
fn models() -> Vec<Loaded> {
    vec![
        load_model(&["embedded"], &LoadOptions::default()).unwrap(),
        longer("llama-tiny").load().unwrap(),
        longer("mistral-tiny").load().unwrap(),
    ]
}

/// A checkpoint whose context is 512 tokens.
fn longer(name: &str) -> Copy {
    let copy = Copy::of(&tiny().with_file_name(name));
    copy.change_config(|config| config["max_position_embeddings"] = 512.into());
    copy
}

fn ids(count: usize, seed: u32) -> Vec<u32> {
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(12_345);
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) % 270
    };
    (0..count).map(|_| next()).collect()
}

fn read(loaded: &Loaded, cache: &mut KvCache, ids: &[u32]) -> Logits {
    loaded.model.forward(&TokenBatch::single(ids).unwrap(), Some(cache), LogitPositions::Last).unwrap()
}

#[test]
fn nearly_the_logits_of_float32() {
    for loaded in models() {
        let ids = ids(300, 1);
        let whole = |format| read(&loaded, &mut loaded.model.new_cache_in(Some(format), 1, 300).unwrap(), &ids);
        let float32 = whole(CacheFormat::Float32);
        let spread = float32.values().iter().map(|logit| logit.abs()).fold(0.0, f32::max);
        let distance = |format| {
            let pairs = whole(format).values().to_vec().into_iter().zip(float32.values().to_vec());
            pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max) / spread
        };
        let [int8, int4] = QUANTIZED.map(distance);
        assert!(int8 < 0.02 && int4 < 0.2, "{}: {int8}, {int4}", loaded.model_id);
        // A window of 6 tokens never meets a code.
        assert!(int4 > int8 || int4 < 1e-3, "{}: {int8}, {int4}", loaded.model_id);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4))]

    #[test]
    fn the_same_however_tokens_come_and_what_was_guessed_wrong_is_forgotten(
        tokens in 1..400_usize,
        steps in prop::collection::vec((1..150_usize, 0..65_usize), 1..8),
        seed: u32,
    ) {
        for loaded in models() {
            for format in QUANTIZED {
                let ids = ids(tokens, seed);
                let cache = || loaded.model.new_cache_in(Some(format), 1, 512).unwrap();
                let expected = read(&loaded, &mut cache(), &ids);
                let (mut cache, mut from, mut last) = (cache(), 0, None);
                for &(count, guesses) in steps.iter().cycle() {
                    if guesses > 0 {
                        read(&loaded, &mut cache, &self::ids(guesses, !seed));
                        loaded.model.truncate(&mut cache, from).unwrap();
                    }
                    let to = tokens.min(from + count);
                    last = Some(read(&loaded, &mut cache, &ids[from..to]));
                    from = to;
                    if from == tokens {
                        break;
                    }
                }
                prop_assert!(last == Some(expected), "{} in {format}", loaded.model_id);
            }
        }
    }

    #[test]
    fn neighbours_and_padding_change_nothing(
        rows in prop::collection::vec(prop::collection::vec(any::<prop::sample::Index>(), 200), 3),
        lens in prop::collection::vec(1..200_usize, 3),
        seed: u32,
    ) {
        for loaded in models() {
            for format in QUANTIZED {
                // Padding anywhere: each sequence's tokens stand at some of 200 places.
                let tokens: Vec<Vec<u32>> = lens.iter().map(|&len| ids(len, seed ^ len as u32)).collect();
                let (mut padded, mut masks) = (Vec::new(), Vec::new());
                for (tokens, row) in tokens.iter().zip(&rows) {
                    let mut mask = vec![true; tokens.len()];
                    mask.resize(200, false);
                    for (i, place) in row.iter().enumerate() {
                        mask.swap(i, i + place.index(200 - i));
                    }
                    let mut tokens = tokens.iter();
                    padded.push(mask.iter().map(|&is| if is { *tokens.next().unwrap() } else { 7 }).collect::<Vec<_>>());
                    masks.push(mask);
                }
                let batch = TokenBatch::new(&padded).unwrap().with_attention_mask(&masks).unwrap();
                let mut cache = loaded.model.new_cache_in(Some(format), 3, 512).unwrap();
                let mut found = loaded.model.forward(&batch, Some(&mut cache), LogitPositions::Last).unwrap();
                let mut alone: Vec<KvCache> =
                    lens.iter().map(|_| loaded.model.new_cache_in(Some(format), 1, 512).unwrap()).collect();
                let mut expected: Vec<Logits> =
                    alone.iter_mut().zip(&tokens).map(|(cache, tokens)| read(&loaded, cache, tokens)).collect();
                let mut kept = vec![0, 1, 2];
                for next in 3..6_u32 {
                    for (row, &sequence) in kept.iter().enumerate() {
                        prop_assert_eq!(found.row(row, 0), expected[sequence].row(0, 0));
                    }
                    if next == 4 {
                        kept.remove(1);
                        loaded.model.retain(&mut cache, &kept).unwrap();
                    }
                    let batch = TokenBatch::new(&vec![vec![next; 20]; kept.len()]).unwrap();
                    found = loaded.model.forward(&batch, Some(&mut cache), LogitPositions::Last).unwrap();
                    expected = alone.iter_mut().map(|cache| read(&loaded, cache, &[next; 20])).collect();
                }
            }
        }
    }
}

#[test]
fn guesses_do_not_change_the_text() {
    for loaded in models() {
        for cache_format in QUANTIZED.map(Some) {
            for do_sample in [false, true] {
                let options = GenerateOptions { max_new_tokens: 60, cache_format, do_sample, ..Default::default() };
                let ids = ids(40, 3).repeat(4);
                let expected = loaded.generate_tokens(&ids, &options).unwrap();
                let found = loaded.generate_speculative(&ids, Draft::PromptLookup { ngram: 2 }, 16, &options).unwrap();
                assert_eq!(found.generated, expected);
                let two = [ids.clone(), ids[..77].to_vec()];
                let batch = generate_tokens(&*loaded.model, &two, &options, &mut |_, _| ()).unwrap();
                assert_eq!(batch[0], expected);
            }
        }
    }
}

#[test]
fn a_cut_that_is_too_far_back_is_refused() {
    let loaded = &models()[1];
    let mut cache = loaded.model.new_cache_in(Some(CacheFormat::Int4), 1, 400).unwrap();
    let ids = ids(400, 5);
    read(loaded, &mut cache, &ids[..300]);
    let error = loaded.model.truncate(&mut cache, 223).unwrap_err();
    assert!(error.to_string().contains("a cache in int4 cannot go so far back"), "{error}");
    assert!(error.to_string().contains("had 300 tokens, and can go on after 224"), "{error}");
    assert_eq!(cache.past_len(), 300);
    loaded.model.truncate(&mut cache, 224).unwrap();
    let cut = read(loaded, &mut cache, &ids[224..400]);
    // From the beginning, it can always go on.
    loaded.model.truncate(&mut cache, 0).unwrap();
    assert_eq!(read(loaded, &mut cache, &ids), cut);
    cache.reset();
    assert_eq!(read(loaded, &mut cache, &ids), cut);
    loaded.model.truncate(&mut cache, 336).unwrap();
}

#[test]
fn memory_by_formula_and_by_measurement() {
    let copy = longer("mistral-tiny");
    let folder = copy.path(CONFIG).parent().unwrap().to_str().unwrap().to_owned();
    let config = DecoderConfig::read(&folder.parse::<ModelId>().unwrap().resolve().unwrap().config).unwrap();
    let loaded = copy.load().unwrap();
    for format in [CacheFormat::Float32, CacheFormat::Float16, CacheFormat::Int8, CacheFormat::Int4] {
        for (batch, capacity) in [(1, 1), (2, 63), (1, 65), (3, 127), (1, 128), (2, 129), (1, 512)] {
            let cache = loaded.model.new_cache_in(Some(format), batch, capacity).unwrap();
            assert_eq!(
                cache.bytes() as f64,
                config.cache_bytes(format, batch, capacity),
                "{format} {batch} {capacity}"
            );
        }
    }
    assert_eq!(loaded.model.new_cache(2, 9).unwrap().bytes() as f64, config.cache_bytes(CacheFormat::Float32, 2, 9));
    let error = loaded.model.new_cache_in(Some(CacheFormat::Int4), 1 << 50, 512).unwrap_err().to_string();
    assert!(error.contains("GiB"), "{error}");
}

#[test]
#[expect(clippy::single_range_in_vec_init, reason = "a list of one range is what is meant")]
fn predictions_by_context() {
    let loaded = load_model(&["embedded"], &LoadOptions::default()).unwrap();
    let sequences = [ids(300, 1), ids(300, 2)];
    let others = [CacheFormat::Float32, CacheFormat::Int8, CacheFormat::Int4].map(|format| (&loaded, format));
    // Of the first 64 tokens, none sees a code.
    let rows = compare_caches(&loaded, &others, &sequences, &[1..64, 128..300]).unwrap();
    let kl = |format, start| {
        let row = rows.iter().find(|row| row.format == format && row.context.start == start).unwrap();
        assert_eq!(row.tokens, 2 * row.context.len());
        row.kl_divergence.value
    };
    assert_eq!((kl(CacheFormat::Float32, 1), kl(CacheFormat::Float32, 128)), (0.0, 0.0));
    assert_eq!(kl(CacheFormat::Int8, 1), kl(CacheFormat::Int4, 1), "nothing is a code yet");
    assert!(kl(CacheFormat::Int8, 1) < kl(CacheFormat::Int8, 128));
    assert!(kl(CacheFormat::Int8, 128) < kl(CacheFormat::Int4, 128));
    // By hand, of the last prediction.
    let last = compare_caches(&loaded, &others[2..], &sequences, &[299..300]).unwrap();
    let by_hand = sequences.iter().map(|ids| {
        let logits = |format| read(&loaded, &mut loaded.model.new_cache_in(format, 1, 299).unwrap(), &ids[..299]);
        let [p, q] = [None, Some(CacheFormat::Int4)].map(|format| {
            let logits: Vec<f64> = logits(format).values().iter().map(|&logit| f64::from(logit)).collect();
            let sum: f64 = logits.iter().map(|logit| logit.exp()).sum();
            logits.iter().map(|logit| logit.exp() / sum).collect::<Vec<_>>()
        });
        p.iter().zip(q).map(|(p, q)| p * (p / q).ln()).sum::<f64>()
    });
    assert!((last[0].kl_divergence.value - by_hand.sum::<f64>() / 2.0).abs() < 1e-9);
    for (sequences, contexts) in [
        (&[ids(9, 1), ids(8, 1)][..], [1..3]),
        (&sequences[..], [0..3]),
        (&sequences, [200..301]),
        (&sequences[..1], [5..6]),
        (&[], [1..3]),
    ] {
        assert!(compare_caches(&loaded, &others, sequences, &contexts).is_err());
    }
    // The last token is only predicted.
    let unknown = [[ids(9, 1), vec![u32::MAX]].concat()];
    let error = compare_caches(&loaded, &others, &unknown, &[1..9]).unwrap_err().to_string();
    assert!(error.contains("beyond the model's vocabulary"), "{error}");
    let other = longer("llama-tiny").load().unwrap();
    let error = compare_caches(&loaded, &[(&other, CacheFormat::Int8)], &[ids(9, 1)], &[1..9]).unwrap_err().to_string();
    assert!(error.contains("a vocabulary of"), "{error}");
}

#[test]
fn other_engines_say_that_they_cannot() {
    for engine in [Engine::Candle, Engine::Tch] {
        let options = LoadOptions { engine: Some(engine), ..LoadOptions::default() };
        let loaded = load_model(&[tiny().to_str().unwrap()], &options).unwrap();
        for format in QUANTIZED {
            let error = loaded.model.new_cache_in(Some(format), 1, 64).unwrap_err();
            let expected = format!("keys and values in {format} are not supported by {engine} on cpu");
            assert!(error.to_string().to_lowercase().contains(&expected), "{error}");
        }
    }
}

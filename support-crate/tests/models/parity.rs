//! The model computes what transformers computes.

use std::slice::from_ref;

use crate::common::{Case, cases, distance, in_tiles};
use quantlab::generate::{GenerateOptions, PaddingSide, generate_tokens};
use quantlab::measure::{PerplexityOptions, perplexity_of_tokens};
use quantlab::model::{Engine, LoadOptions, Loaded, LogitPositions, Precision, TokenBatch, load_model};

const LOGITS: f32 = 1e-4;
const LOSS: f64 = 1e-5;

#[test]
fn logits_of_a_batch() {
    for case in cases() {
        let tokens = TokenBatch::new(&case.ids("input_ids")).unwrap();
        for (name, loaded) in case.in_every_engine() {
            let logits = loaded.model.forward(&tokens, None, LogitPositions::All).unwrap();
            let distance = distance(logits.values(), &case.values("logits"));
            assert!(distance < LOGITS, "{name}: {distance}");
        }
    }
}

#[test]
fn logits_token_by_token_with_the_cache() {
    for case in cases() {
        case.in_every_engine().iter().for_each(|(name, loaded)| in_chunks(&case, name, loaded));
    }
}

/// Chunks of 1, 2, 3, ... tokens: the cache must not care how its content came in.
fn in_chunks(case: &Case, name: &str, loaded: &Loaded) {
    let rows = case.ids("input_ids");
    let vocab = loaded.model.info().vocab_size;
    let expected = case.values("logits");
    let mut cache = loaded.model.new_cache(rows.len(), rows[0].len()).unwrap();
    let mut size = 1;
    while cache.past_len() < rows[0].len() {
        let start = cache.past_len();
        let end = rows[0].len().min(start + size);
        let chunk: Vec<Vec<u32>> = rows.iter().map(|row| row[start..end].to_vec()).collect();
        let logits =
            loaded.model.forward(&TokenBatch::new(&chunk).unwrap(), Some(&mut cache), LogitPositions::All).unwrap();
        for (b, row) in rows.iter().enumerate() {
            for t in start..end {
                let at = (b * row.len() + t) * vocab;
                let distance = distance(logits.row(b, t - start), &expected[at..at + vocab]);
                assert!(distance < LOGITS, "{name}: sequence {b}, token {t}: {distance}");
            }
        }
        size += 1;
    }
}

#[test]
fn logits_of_a_left_padded_batch() {
    for case in cases() {
        let mask = case.mask("attention_mask");
        let tokens = TokenBatch::new(&case.ids("input_ids")).unwrap().with_attention_mask(&mask).unwrap();
        let expected = case.values("masked_logits");
        for (name, loaded) in case.in_every_engine() {
            let logits = loaded.model.forward(&tokens, None, LogitPositions::All).unwrap();
            let vocab = logits.vocab_size();
            for (i, &is_token) in mask.concat().iter().enumerate() {
                let row = logits.row(i / mask[0].len(), i % mask[0].len());
                assert!(row.iter().all(|logit| logit.is_finite()), "{name}: padding gives numbers too");
                let distance = distance(row, &expected[i * vocab..(i + 1) * vocab]);
                assert!(!is_token || distance < LOGITS, "{name}: token {i}: {distance}");
            }
        }
    }
}

#[test]
fn greedy_tokens_with_and_without_the_cache() {
    for case in cases() {
        let loads = case.in_every_engine();
        for (prompt, expected) in case.ids("input_ids").iter().zip(case.ids("greedy")) {
            for ((name, loaded), use_cache) in loads.iter().flat_map(|load| [(load, true), (load, false)]) {
                let options = GenerateOptions {
                    max_new_tokens: expected.len(),
                    min_new_tokens: expected.len(),
                    use_cache,
                    ..GenerateOptions::default()
                };
                let found = generate_tokens(&*loaded.model, from_ref(prompt), &options, &mut |_, _| ()).unwrap();
                assert_eq!(found[0].tokens, expected, "{name}, use_cache {use_cache}");
            }
        }
    }
}

#[test]
fn greedy_tokens_of_a_padded_batch() {
    for case in cases() {
        let loads = case.in_every_engine();
        let (rows, mask) = (case.ids("input_ids"), case.mask("attention_mask"));
        let prompts: Vec<Vec<u32>> = rows.iter().zip(&mask).map(|(row, mask)| unpadded(row, mask)).collect();
        for (prompts, expected) in [(prompts, case.ids("masked_greedy")), (rows, case.ids("greedy"))] {
            for padding_side in [PaddingSide::Left, PaddingSide::Right] {
                for ((name, loaded), use_cache) in loads.iter().flat_map(|load| [(load, true), (load, false)]) {
                    // Like the reference, the token that ends a text is never chosen.
                    let options = GenerateOptions {
                        max_new_tokens: expected[0].len(),
                        min_new_tokens: expected[0].len(),
                        use_cache,
                        padding_side,
                        ..GenerateOptions::default()
                    };
                    let found = generate_tokens(&*loaded.model, &prompts, &options, &mut |_, _| ()).unwrap();
                    let found: Vec<Vec<u32>> = found.into_iter().map(|sequence| sequence.tokens).collect();
                    assert_eq!(found, expected, "{name}, {padding_side:?}, use_cache {use_cache}");
                }
            }
        }
    }
}

/// The tokens of a row that are not padding.
fn unpadded(row: &[u32], mask: &[bool]) -> Vec<u32> {
    row.iter().zip(mask).filter(|(_, is_token)| **is_token).map(|(id, _)| *id).collect()
}

#[test]
fn loss_is_the_mean_over_all_predicted_tokens() {
    for case in cases() {
        let result = perplexity_of_tokens(&case.load(), &case.ids("input_ids"), &PerplexityOptions::default()).unwrap();
        let expected = f64::from(case.values("loss")[0]);
        assert!((result.mean_nll - expected).abs() < LOSS, "{}: {} and {expected}", case.name, result.mean_nll);
        assert!((result.perplexity - expected.exp()).abs() < LOSS * expected.exp() * 2.0);
    }
}

#[test]
fn an_element_of_a_batch_does_not_notice_the_others_to_the_bit() {
    for case in cases() {
        let loaded = case.load();
        let (rows, mask) = (case.ids("input_ids"), case.mask("attention_mask"));
        let tokens = TokenBatch::new(&rows).unwrap().with_attention_mask(&mask).unwrap();
        let together = loaded.model.forward(&tokens, None, LogitPositions::Last).unwrap();
        for (b, (row, mask)) in rows.iter().zip(&mask).enumerate() {
            let alone = unpadded(row, mask);
            let alone = loaded.model.forward(&TokenBatch::single(&alone).unwrap(), None, LogitPositions::Last).unwrap();
            assert_eq!(together.row(b, 0), alone.row(0, 0), "{}: sequence {b}", case.name);
        }
    }
}

#[test]
fn parameters_and_bytes_are_counted() {
    for case in cases() {
        for (name, loaded) in case.in_every_engine() {
            let info = loaded.model.info();
            assert_eq!(info.num_parameters, case.stored_parameters(), "{name}");
            assert_eq!(info.parameter_bytes, 4 * info.num_parameters, "{name}");
        }
    }
}

#[test]
fn bfloat16_weights_stay_close_and_take_half() {
    for case in cases() {
        for engine in Engine::ALL {
            let (full, half) = (case.load(), load_in(&case, engine, Precision::BFloat16));
            assert_eq!(half.dtype_label, "bfloat16");
            let few = bytes(&half) as f64 / bytes(&full) as f64;
            assert!((0.5..0.52).contains(&few), "{few}");
            let tokens = TokenBatch::new(&case.ids("input_ids")).unwrap();
            let logits = half.model.forward(&tokens, None, LogitPositions::All).unwrap();
            let expected = case.values("logits");
            let spread = expected.iter().map(|logit| logit.abs()).fold(0.0, f32::max);
            let distance = distance(logits.values(), &expected);
            assert!(distance > 0.0 && distance < 0.05 * spread, "{} on {engine}: {distance} of {spread}", case.name);
        }
    }
}

fn load_in(case: &Case, engine: Engine, precision: Precision) -> Loaded {
    let options = LoadOptions { engine: Some(engine), precision, ..LoadOptions::default() };
    load_model(&[case.folder.to_str().unwrap()], &options).unwrap()
}

/// With the cache or without, in one step or in many: the same additions in the same order. Bfloat16 is only close in tiles.
#[test]
fn a_step_with_the_cache_is_the_same_to_the_bit() {
    for case in cases() {
        for precision in [Precision::Float32, Precision::BFloat16] {
            let loaded = load_in(&case, Engine::Kernels, precision);
            let ids = &case.ids("input_ids")[0];
            let whole = loaded.model.forward(&TokenBatch::single(ids).unwrap(), None, LogitPositions::All).unwrap();
            let mut cache = loaded.model.new_cache(1, ids.len()).unwrap();
            for (t, &id) in ids.iter().enumerate() {
                let tokens = TokenBatch::single(&[id]).unwrap();
                let one = loaded.model.forward(&tokens, Some(&mut cache), LogitPositions::Last).unwrap();
                let (one, whole) = (one.row(0, 0), whole.row(0, t));
                let spread = whole.iter().map(|logit| logit.abs()).fold(0.0, f32::max);
                let is_close = in_tiles() && precision == Precision::BFloat16 && distance(one, whole) < 0.02 * spread;
                assert!(is_close || one == whole, "{} in {precision}, token {t}: {one:?} and {whole:?}", case.name);
            }
        }
    }
}

/// Two of three sequences, as if there had never been a third.
#[test]
fn sequences_that_a_cache_keeps_go_on_as_before() {
    for case in cases() {
        for (name, loaded) in case.in_every_engine() {
            let rows = case.ids("input_ids");
            let (prompt, next): (Vec<_>, Vec<_>) = rows.iter().map(|row| (row[..9].to_vec(), vec![row[9]])).unzip();
            let mut cache = loaded.model.new_cache(rows.len(), 10).unwrap();
            loaded.model.forward(&TokenBatch::new(&prompt).unwrap(), Some(&mut cache), LogitPositions::Last).unwrap();
            loaded.model.retain(&mut cache, &[0, 2]).unwrap();
            let next = TokenBatch::new(&[next[0].clone(), next[2].clone()]).unwrap();
            let logits = loaded.model.forward(&next, Some(&mut cache), LogitPositions::Last).unwrap();
            let (expected, vocab) = (case.values("logits"), logits.vocab_size());
            for (row, of) in [(0, 0), (1, 2)] {
                let at = (of * rows[0].len() + 9) * vocab;
                let distance = distance(logits.row(row, 0), &expected[at..at + vocab]);
                assert!(distance < LOGITS, "{name}: sequence {of}: {distance}");
            }
            assert!(loaded.model.retain(&mut cache, &[]).is_err());
            assert!(loaded.model.retain(&mut cache, &[1, 0]).is_err());
            assert!(loaded.model.retain(&mut cache, &[2]).is_err());
        }
    }
}

fn bytes(loaded: &quantlab::model::Loaded) -> usize {
    loaded.model.info().parameter_bytes
}

#[test]
fn cases_are_found() {
    let names: Vec<String> = cases().into_iter().map(|case: Case| case.name).collect();
    let own = ["gpt2-tiny", "llama-tiny", "llama3-tiny", "mistral-tiny", "qwen2-tiny"];
    assert!(std::env::var_os("QUANTLAB_GOLDEN").is_some() || names == own, "{names:?}");
}

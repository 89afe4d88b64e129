//! What a server does with caches: sequences that go on together, and blocks that are copied.

use quantlab::error::Error;
use quantlab::model::{CacheFormat, CausalLm, Engine, KvCache, LoadOptions, LogitPositions, TokenBatch, load_model};

use super::{FORMATS, MODELS, embedded, model};
use crate::common::tiny;

fn read(model: &dyn CausalLm, cache: &mut KvCache, ids: &[u32]) -> Vec<f32> {
    model.forward(&TokenBatch::single(ids).unwrap(), Some(cache), LogitPositions::Last).unwrap().values().to_vec()
}

#[test]
fn sequences_go_on_together_as_each_alone() {
    let ids: Vec<u32> = (0..60).map(|at| at * 7 % 250).collect();
    let tiny = |engine| {
        let options = LoadOptions { engine: Some(engine), ..LoadOptions::default() };
        load_model(&[tiny().to_str().unwrap()], &options).unwrap()
    };
    for loaded in MODELS.map(model).into_iter().chain(Engine::ALL.map(tiny)) {
        let model = &*loaded.model;
        // Formats side by side.
        let formats = match model.info().engine {
            Engine::Kernels => FORMATS.map(Some),
            _ => [None; 4],
        };
        let new = |format| model.new_cache_in(format, 1, 60).unwrap();
        let (mut alone, mut together) = (formats.map(new), formats.map(new));
        let mut from = [0; 4];
        for counts in [[1, 9, 33, 2], [5, 1, 1, 30], [1, 1, 1, 1], [40, 3, 1, 20]] {
            let parts: Vec<&[u32]> = from.iter().zip(counts).map(|(&from, count)| &ids[from..from + count]).collect();
            let logits =
                model.forward_together(&mut parts.iter().copied().zip(&mut together).collect::<Vec<_>>()).unwrap();
            assert_eq!((logits.batch(), logits.positions()), (4, 1));
            for (row, (part, cache)) in parts.iter().zip(&mut alone).enumerate() {
                assert_eq!(logits.row(row, 0), read(model, cache, part), "{}: row {row}", loaded.model_id);
            }
            from.iter_mut().zip(counts).for_each(|(from, count)| *from += count);
            assert!(together.iter().zip(from).all(|(cache, from)| cache.past_len() == from));
        }
    }
}

#[test]
fn sequences_that_cannot_go_on_leave_all_as_they_were() {
    let loaded = embedded();
    let (model, other) = (&*loaded.model, embedded());
    let (mut first, mut two, mut foreign) =
        (model.new_cache(1, 4).unwrap(), model.new_cache(2, 4).unwrap(), other.model.new_cache(1, 4).unwrap());
    assert!(model.forward_together(&mut []).unwrap_err().to_string().contains("no sequences"));
    let mut refused = |ids: &[u32], cache: &mut KvCache, expected: &str| {
        let error = model.forward_together(&mut [(&[1, 2], &mut first), (ids, cache)]).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert_eq!((first.past_len(), cache.past_len()), (0, 0));
    };
    refused(&[], &mut model.new_cache(1, 4).unwrap(), "no tokens");
    refused(&[1, 2, 3, 4, 5], &mut model.new_cache(1, 4).unwrap(), "5 tokens exceed the cache's capacity of 4");
    refused(&[99_999], &mut model.new_cache(1, 4).unwrap(), "token id 99999");
    refused(&[1], &mut two, "the cache holds 2 sequences, the batch has 1");
    refused(&[1], &mut foreign, "another model");
}

#[test]
fn a_block_is_worth_its_tokens_in_every_format() {
    let ids: Vec<u32> = (0..200).map(|at| at * 11 % 250).collect();
    for loaded in MODELS.map(model) {
        let model = &*loaded.model;
        for format in FORMATS {
            let new = || model.new_cache_in(Some(format), 1, 240).unwrap();
            let (mut whole, mut copied) = (new(), new());
            for (from, to) in [(0, 64), (64, 70), (70, 100), (100, 160)] {
                read(model, &mut whole, &ids[from..to]);
                model.copy_in(&model.copy_out(&whole, from..to).unwrap(), &mut copied).unwrap();
            }
            for next in ids[160..].chunks(3) {
                assert!(
                    read(model, &mut whole, next) == read(model, &mut copied, next),
                    "{} in {format}",
                    loaded.model_id
                );
            }
        }
    }
}

#[test]
fn blocks_that_do_not_fit_are_refused() {
    let loaded = embedded();
    let model = &*loaded.model;
    let ids: Vec<u32> = (0..200).collect();
    let new = |format, batch| model.new_cache_in(Some(format), batch, 240).unwrap();
    let mut cache = new(CacheFormat::Float32, 1);
    read(model, &mut cache, &ids[..40]);
    let refused = |result: Result<_, Error>, expected: &str| {
        let error = result.map(drop).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    refused(model.copy_out(&cache, 30..41), "a cache of 40 tokens has no block of 30..41");
    refused(model.copy_out(&cache, 8..8), "no block of 8..8");
    refused(model.copy_out(&new(CacheFormat::Float32, 2), 0..1), "the cache has 2 sequences");
    let block = model.copy_out(&cache, 16..32).unwrap();
    assert_eq!(block.tokens(), 16..32);
    let into = |block, mut cache| model.copy_in(block, &mut cache).map(|()| block.tokens());
    let refused_in = |result: Result<std::ops::Range<usize>, Error>, expected: &str| {
        let error = result.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    refused_in(into(&block, new(CacheFormat::Float32, 1)), "tokens 16 to 32 does not follow the 0");
    let first = model.copy_out(&cache, 0..16).unwrap();
    refused_in(into(&first, new(CacheFormat::Int8, 1)), "a block in float32 cannot go into a cache in int8");
    refused_in(into(&first, model.new_cache(1, 15).unwrap()), "room for 15");
    refused_in(into(&first, embedded().model.new_cache(1, 240).unwrap()), "another model");
    let mut codes = new(CacheFormat::Int4, 1);
    read(model, &mut codes, &ids);
    refused(model.copy_out(&codes, 64..80), "has only codes of tokens 64..80");
    assert!(model.copy_out(&codes, 80..96).is_ok());
    let candle = load_model(
        &[tiny().to_str().unwrap()],
        &LoadOptions { engine: Some(Engine::Candle), ..LoadOptions::default() },
    );
    let candle = candle.unwrap();
    let mut cache = candle.model.new_cache(1, 20).unwrap();
    read(&*candle.model, &mut cache, &ids[..16]);
    refused(candle.model.copy_out(&cache, 0..16), "cannot be copied out of a cache in candle");
}

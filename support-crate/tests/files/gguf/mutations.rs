//! Files that are damaged in any way: they are read or refused.

use std::fs;
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::thread;

use proptest::prelude::*;
use quantlab::error::ErrorKind;
use quantlab::model::{LoadOptions, LogitPositions, TokenBatch, set_threads};
use quantlab::source::Gguf;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::writer::{llama, qwen2};
use super::{load, tiny_gguf};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Whatever is changed in a header, it is read or refused.
    #[test]
    fn a_damaged_header_never_panics(
        changes in proptest::collection::vec(
            (0..24_000_usize, prop_oneof![any::<u64>(), Just(u64::MAX), Just(1 << 60), 0..64_u64], 1..9_usize),
            1..5,
        ),
        cut in prop_oneof![4 => Just(usize::MAX), 1 => 0..30_000_usize],
    ) {
        thread_local! {
            static BYTES: Vec<u8> = fs::read(tiny_gguf()).unwrap();
        }
        let mut bytes = BYTES.with(Clone::clone);
        for (at, value, len) in changes {
            bytes[at..at + len.min(8)].copy_from_slice(&value.to_le_bytes()[..len.min(8)]);
        }
        bytes.truncate(cut);
        if let Ok(header) = Gguf::read(&bytes) {
            for tensor in header.tensors().values() {
                prop_assert!(tensor.range.end <= bytes.len());
            }
        }
    }
}

/// A small file, and where its tensors begin.
struct Good {
    bytes: Vec<u8>,
    header_len: usize,
}

impl Good {
    fn new(bytes: Vec<u8>) -> Self {
        let starts = Gguf::read(&bytes).unwrap().tensors().values().map(|tensor| tensor.range.start).min();
        Self { header_len: starts.unwrap(), bytes }
    }

    /// This file with one to three changes, mostly in its header.
    fn changed(&self, random: &mut StdRng) -> Vec<u8> {
        /// Sizes and types, and the bits of a NaN and of an infinity.
        const VALUES: [u64; 14] =
            [0, 1, 2, 8, 9, 16, 63, 64, 0x7f80_0000, 0x7fc0_0000, u32::MAX as u64, 1 << 60, i64::MAX as u64, u64::MAX];
        let mut bytes = self.bytes.clone();
        for _ in 0..random.random_range(1..4) {
            if bytes.is_empty() {
                break;
            }
            let within = if random.random_bool(0.8) { self.header_len.min(bytes.len()) } else { bytes.len() };
            let (at, from) = (random.random_range(0..within), random.random_range(0..within));
            let len = random.random_range(1..=40).min(bytes.len() - from);
            match random.random_range(0..20) {
                0..10 => bytes[at] ^= random.random_range(1..=u8::MAX),
                10..14 => {
                    let value = VALUES[random.random_range(0..VALUES.len())].to_le_bytes();
                    let len = [1, 4, 8][random.random_range(0..3)].min(bytes.len() - at);
                    bytes[at..at + len].copy_from_slice(&value[..len]);
                }
                14..16 => {
                    let len = len.min(bytes.len() - at);
                    bytes.copy_within(from..from + len, at);
                }
                16..18 => {
                    let part = bytes[from..from + len].to_vec();
                    bytes.splice(at..at, part);
                }
                18 => drop(bytes.drain(from..from + len)),
                _ => bytes.truncate(at),
            }
        }
        bytes
    }
}

/// Loads a file and, if it loads, runs it. Weights, and so logits, may well be NaN.
fn is_read(bytes: &[u8], path: &Path) -> bool {
    fs::write(path, bytes).unwrap();
    match load(path, &LoadOptions::default()) {
        Ok(loaded) => {
            let ids = loaded.tokenizer.encode("abcd 12<|end|>e").unwrap_or_default();
            let _ = loaded.tokenizer.decode(&ids);
            let tokens = TokenBatch::single(&[0, 0][..loaded.model.info().context_len.min(2)]).unwrap();
            loaded.model.forward(&tokens, None, LogitPositions::All).unwrap();
            true
        }
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Format, "{error}");
            false
        }
    }
}

/// Tries so many files, the same ones each time, and returns how many of them are read.
fn try_out(count: u64) -> usize {
    let own = [llama(), qwen2()].map(|file| file.bytes());
    let of_families = ["gemma3", "phi3-longrope", "smollm3", "gpt2"];
    let of_families = of_families.map(|name| fs::read(format!("tests/golden/{name}-tiny.gguf")).unwrap());
    let good: Vec<Good> = own.into_iter().chain(of_families).map(Good::new).collect();
    let workers = thread::available_parallelism().map_or(1, NonZero::get) as u64;
    let work = |worker: u64| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.gguf");
        assert!(good.iter().all(|good| is_read(&good.bytes, &path)));
        let of_worker = (worker..count).step_by(workers as usize);
        let read = of_worker.filter(|&number| {
            let bytes = good[number as usize % good.len()].changed(&mut StdRng::seed_from_u64(number));
            let outcome = catch_unwind(AssertUnwindSafe(|| is_read(&bytes, &path)));
            outcome.unwrap_or_else(|_| panic!("file number {number}"))
        });
        read.count()
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|worker| scope.spawn(move || work(worker))).collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).sum()
    })
}

#[test]
fn a_damaged_file_is_read_or_refused() {
    let read = try_out(2000);
    assert!((1..2000).contains(&read), "{read} of 2000 files are read");
}

#[test]
#[ignore = "takes minutes"]
fn a_million_damaged_files_are_read_or_refused() {
    // The files are tried on all processors already.
    set_threads(1).unwrap();
    let read = try_out(1_000_000);
    println!("1000000 damaged files: {read} are read, {} refused", 1_000_000 - read);
}

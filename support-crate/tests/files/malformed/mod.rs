//! Whatever the files of a model hold: a model or an error, never a panic, and never memory that the files do not
//! account for. In a process of its own, because the memory is that of the whole process.

mod change;
mod quantized;

use std::fs;
use std::path::Path;
use std::sync::{LazyLock, Mutex, PoisonError};

use crate::common::copy::{CONFIG, Copy, TOKENIZER, WEIGHTS, header_and_data, with_header};
use change::{any_change, any_edit, any_json, any_key, any_part, large_size, put};
use proptest::prelude::*;
use proptest::sample::Index;
use quantlab::error::ErrorKind;
use quantlab::model::{Engine, Loaded, LogitPositions, TokenBatch, set_threads};
use serde_json::{Map, Value, json};

/// The files of a model in the making: what a case changes.
#[derive(Clone)]
struct Files {
    config: Map<String, Value>,
    tokenizer: Vec<u8>,
    /// Names and entries, as text so that names can occur twice and entries be no JSON.
    header: Vec<(String, String)>,
    data: Vec<u8>,
}

static GPT2: LazyLock<Files> = LazyLock::new(|| Files::small("gpt2-tiny"));
static LLAMA: LazyLock<Files> = LazyLock::new(|| Files::small("llama-tiny"));

impl Files {
    /// A checkpoint of the reference folder in an eighth of its width, so that a case takes little time.
    fn small(name: &str) -> Self {
        const VOCAB_SIZE: usize = 384;
        let copy = Copy::of(&Path::new("tests/golden").join(name));
        copy.change_tensors(|tensors| {
            for tensor in tensors.values_mut() {
                for (dim, size) in tensor.dims().to_vec().into_iter().enumerate() {
                    let size = if size == VOCAB_SIZE { size } else { size / 8 };
                    *tensor = tensor.narrow(dim, 0, size).unwrap().contiguous().unwrap();
                }
            }
        });
        let mut config: Map<String, Value> = serde_json::from_slice(&fs::read(copy.path(CONFIG)).unwrap()).unwrap();
        for key in ["n_embd", "n_positions", "hidden_size", "intermediate_size", "head_dim"] {
            if let Some(size) = config.get(key).and_then(Value::as_u64) {
                config.insert(key.to_owned(), json!(size / 8));
            }
        }
        let weights = fs::read(copy.path(WEIGHTS)).unwrap();
        let (header, data) = header_and_data(&weights);
        let header = header.as_object().unwrap().iter();
        let header = header.map(|(name, entry)| (name.clone(), entry.to_string())).collect();
        Self { config, tokenizer: fs::read(copy.path(TOKENIZER)).unwrap(), header, data: data.to_vec() }
    }

    fn of(is_llama: bool) -> Self {
        if is_llama { LLAMA.clone() } else { GPT2.clone() }
    }

    fn config(&self) -> Vec<u8> {
        Value::Object(self.config.clone()).to_string().into_bytes()
    }

    fn weights(&self) -> Vec<u8> {
        let entries: Vec<String> = self.header.iter().map(|(name, entry)| format!("{}:{entry}", json!(name))).collect();
        with_header(&format!("{{{}}}", entries.join(",")), &self.data)
    }

    fn try_out(&self) -> Result<(), TestCaseError> {
        try_out(&self.config(), &self.tokenizer, &self.weights()).map(drop)
    }
}

/// Loads these files in two engines, and runs what loads; returns the error of what does not.
fn try_out(config: &[u8], tokenizer: &[u8], weights: &[u8]) -> Result<Option<String>, TestCaseError> {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    // Threads of their own would reserve memory of their own.
    set_threads(1).unwrap();
    let (before, files) = (peak_address_space(), config.len() + tokenizer.len() + weights.len());
    let copy = Copy::empty();
    for (name, bytes) in [(CONFIG, config), (TOKENIZER, tokenizer), (WEIGHTS, weights)] {
        fs::write(copy.path(name), bytes).unwrap();
    }
    let outcomes = [Engine::Kernels, Engine::Tch].map(|engine| match copy.load_in(engine) {
        Err(error) if error.kind() == ErrorKind::Format => Err(error.to_string()),
        Err(error) => panic!("not said to be the files' fault: {error}"),
        Ok(loaded) => {
            run(&loaded);
            Ok(())
        }
    });
    // Of several tensors that are wrong, either may be named.
    prop_assert_eq!(outcomes[0].is_ok(), outcomes[1].is_ok(), "kernels and tch differ");
    let growth = peak_address_space() - before;
    prop_assert!(growth <= 8 * files + ROOM, "{growth} bytes of memory for {files} bytes of files");
    let [outcome, _] = outcomes;
    Ok(outcome.err())
}

/// Weights, and so logits, may well be NaN.
fn run(loaded: &Loaded) {
    if let Ok(ids) = loaded.tokenizer.encode("the quick brown fox\njumps over  it<|endoftext|>") {
        let _ = loaded.tokenizer.decode(&ids);
    }
    let tokens = TokenBatch::single(&[0, 0][..loaded.model.info().context_len.min(2)]).unwrap();
    loaded.model.forward(&tokens, None, LogitPositions::All).unwrap();
}

/// Memory is that of all tests together.
static ALONE: Mutex<()> = Mutex::new(());

/// For what the first case of a thread takes: the system's allocator reserves up to 128 MiB for each.
const ROOM: usize = 256 << 20;

/// Bytes of memory that the process ever had set aside, touched or not. What is asked for in vain is never touched.
#[cfg(target_os = "linux")]
fn peak_address_space() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmPeak:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<usize>().unwrap() * 1024
}

/// Elsewhere, memory that is not there ends the process.
#[cfg(not(target_os = "linux"))]
fn peak_address_space() -> usize {
    0
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn any_header(is_llama: bool, changes in prop::collection::vec((any::<Index>(), any_change()), 1..4)) {
        let mut files = Files::of(is_llama);
        for (tensor, change) in changes {
            change.apply(&mut files.header, tensor);
        }
        files.try_out()?;
    }

    #[test]
    fn any_config(is_llama: bool, changes in prop::collection::vec((any_key(), any_json()), 1..4)) {
        let mut files = Files::of(is_llama);
        files.config.extend(changes.into_iter().map(|(key, value)| (key.to_owned(), value)));
        files.try_out()?;
    }

    #[test]
    fn large_sizes_with_any_header(
        is_llama: bool,
        sizes in prop::collection::vec((any_key(), large_size()), 1..4),
        changes in prop::collection::vec((any::<Index>(), any_change()), 0..3),
    ) {
        let mut files = Files::of(is_llama);
        files.config.extend(sizes.into_iter().map(|(key, size)| (key.to_owned(), json!(size))));
        for (tensor, change) in changes {
            change.apply(&mut files.header, tensor);
        }
        files.try_out()?;
    }

    #[test]
    fn any_tokenizer(changes in prop::collection::vec((prop::collection::vec(any::<Index>(), 1..5), any_part()), 1..4)) {
        let files = Files::of(false);
        let mut tokenizer: Value = serde_json::from_slice(&files.tokenizer).unwrap();
        for (path, part) in changes {
            put(part, &mut tokenizer, &path);
        }
        try_out(&files.config(), tokenizer.to_string().as_bytes(), &files.weights())?;
    }

    #[test]
    fn any_bytes(is_llama: bool, file in 0..3_usize, edits in prop::collection::vec(any_edit(), 1..4)) {
        let files = Files::of(is_llama);
        let mut all = [files.config(), files.tokenizer.clone(), files.weights()];
        edits.into_iter().for_each(|edit| edit.apply(&mut all[file]));
        let [config, tokenizer, weights] = all;
        try_out(&config, &tokenizer, &weights)?;
    }
}

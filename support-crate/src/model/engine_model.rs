//! What engines implement. [`CausalLm`](super::CausalLm) calls it, with arguments that it has checked.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::path::Path;

use quantlab_kernels::ThreadScope;

use super::{CacheFormat, CacheStorage, Logits, ModelIdentity, ModelInfo, Operation, TensorInfo};
use crate::error::{Error, Result};

/// A model in an engine, which makes it a [`CausalLm`](super::CausalLm).
///
/// Public, though hidden, for models whose logits are known: those of the course's checks and of this library's tests.
/// They keep nothing in a cache ([`CacheStorage::nothing`]).
pub trait EngineModel: fmt::Debug + Send + Sync {
    /// As [`CausalLm::info`](super::CausalLm::info).
    fn info(&self) -> &ModelInfo;

    /// Distinguishes its caches from those of other models. Every model whose caches hold something has its own
    /// identity.
    fn identity(&self) -> ModelIdentity {
        ModelIdentity::default()
    }

    /// As [`CausalLm::tensors`](super::CausalLm::tensors).
    fn tensors(&self) -> &[TensorInfo] {
        &[]
    }

    /// As [`CausalLm::synchronize`](super::CausalLm::synchronize).
    ///
    /// # Errors
    /// As there.
    fn synchronize(&self) -> Result<()>;

    /// Computes logits for a step. Keys and values of the step's tokens go into `storage` at `step.past_len`, if there
    /// is one.
    ///
    /// # Errors
    /// What the engine reports.
    fn compute(&self, step: &Step<'_>, storage: Option<&mut CacheStorage>) -> Result<Logits>;

    /// Computes the steps of several caches, of one sequence each, as [`compute`](Self::compute) does one by one, and
    /// returns the logits after the last token of each: (steps, 1, V).
    ///
    /// # Errors
    /// What the engine reports.
    fn compute_together(&self, steps: &mut [(Step<'_>, &mut CacheStorage)]) -> Result<Logits> {
        let mut values = Vec::new();
        for (step, storage) in &mut *steps {
            values.extend_from_slice(self.compute(step, Some(storage))?.values());
        }
        Logits::new(values, steps.len(), self.info().vocab_size)
    }

    /// Shows `observer` what goes into each linear layer, the head too, in a step that has no past. There are no
    /// logits.
    ///
    /// # Errors
    /// What `observer` reports, at once; a model whose layers cannot be seen.
    fn observe(&self, _step: &Step<'_>, _observer: &InputObserver<'_>) -> Result<()> {
        let info = self.info();
        Err(Error::input(format!("the inputs of layers cannot be observed in {} on {}", info.engine, info.device))
            .hint("use `Device::Cpu` and `Engine::Kernels`"))
    }

    /// Computes as [`compute`](Self::compute) does for a step that has no past, and shows `tracer` what each operation
    /// gives, except the logits.
    ///
    /// # Errors
    /// What the engine reports; a model whose operations cannot be seen.
    fn trace(&self, _step: &Step<'_>, _tracer: &Tracer<'_>) -> Result<Logits> {
        let info = self.info();
        Err(Error::input(format!("operations cannot be traced in {} on {}", info.engine, info.device))
            .hint("use `Device::Cpu` and `Engine::Kernels`"))
    }

    /// Memory for the keys and values, in `format`, of `batch` sequences of at most `capacity` tokens; with `None`, in
    /// the format that the model computes in.
    ///
    /// # Errors
    /// What the engine reports; a format in which it cannot keep keys and values ([`no_cache_in`]).
    fn allocate_cache(&self, batch: usize, capacity: usize, format: Option<CacheFormat>) -> Result<CacheStorage>;

    /// Copies keys and values of some tokens out of a cache of one sequence.
    ///
    /// # Errors
    /// The engine cannot; codes whose exact values are gone.
    fn copy_out(&self, _storage: &CacheStorage, _tokens: Range<usize>) -> Result<CacheStorage> {
        Err(no_blocks(self.info()))
    }

    /// Puts what [`copy_out`](Self::copy_out) gave into a cache of one sequence that has the tokens before `tokens`.
    ///
    /// # Errors
    /// The engine cannot; a cache in another format.
    fn copy_in(&self, _block: &CacheStorage, _tokens: Range<usize>, _storage: &mut CacheStorage) -> Result<()> {
        Err(no_blocks(self.info()))
    }

    /// Makes sure that each sequence of a cache can go on after its first `tokens`, padding not counted, as if there had
    /// never been more.
    ///
    /// # Errors
    /// It cannot.
    fn check_cut(&self, _storage: &mut CacheStorage, _tokens: &[usize]) -> Result<()> {
        Ok(())
    }

    /// Makes sequence `rows[i]` of a cache its sequence `i`, of `past_len` tokens each; the others are
    /// forgotten. `rows` ascends, is not empty, and lies within the cache.
    ///
    /// # Errors
    /// What the engine reports.
    fn retain_rows(&self, storage: &mut CacheStorage, rows: &[usize], past_len: usize) -> Result<()>;

    /// Writes the weights as a safetensors file, under the names that transformers has for them, and returns these with
    /// the shapes; only [`save_pretrained`](super::Loaded::save_pretrained) makes a checkpoint of it.
    ///
    /// # Errors
    /// A file that cannot be written, or a model that has no weights to save.
    fn save_weights(&self, file: &Path) -> Result<Vec<(String, Vec<usize>)>> {
        Err(Error::input(format!("a model on {} has no weights to write to {}", self.info().engine, file.display())))
    }

    /// Every tensor in full precision, under transformers' names and in its shapes, to be read some rows at a time.
    ///
    /// # Errors
    /// What the engine reports; a tensor that is quantized; a model that has no weights to show.
    fn plain_tensors(&self) -> Result<Vec<PlainTensor<'_>>> {
        Err(Error::input(format!("a model on {} has no weights to write", self.info().engine)))
    }
}

/// A tensor of a model in full precision.
pub struct PlainTensor<'a> {
    /// As transformers calls it.
    pub name: String,
    /// (out, in) of a matrix, in whatever order a file has it.
    pub shape: Vec<usize>,
    /// Makes its numbers ready to be read.
    pub open: Box<dyn FnOnce() -> Result<RowReader<'a>> + 'a>,
}

/// Appends some rows of a tensor, of one number each if it is a vector, to numbers.
pub type RowReader<'a> = Box<dyn Fn(Range<usize>, &mut Vec<f32>) + 'a>;

/// Reads rows of numbers that are there.
pub(super) fn rows_of(numbers: Cow<'_, [f32]>, columns: usize) -> RowReader<'_> {
    Box::new(move |rows, to| to.extend_from_slice(&numbers[rows.start * columns..rows.end * columns]))
}

/// Looks at what goes into a linear layer: the layer's name as transformers has it (`lm_head` for the head),
/// its inputs, (tokens, in_features) row by row, and in_features; with the threads of the step.
pub type InputObserver<'a> = dyn Fn(&str, &[f32], usize, &ThreadScope) -> Result<()> + 'a;

/// Looks at what an operation gave: of which block, what, and its values, (tokens, width) row by row.
pub type Tracer<'a> = dyn Fn(Option<usize>, Operation, &[f32]) + 'a;

/// One forward pass with everything worked out that does not depend on the engine.
#[derive(Debug)]
pub struct Step<'a> {
    /// Token ids, (B, T) row by row.
    pub ids: &'a [u32],
    /// B, the number of sequences.
    pub batch: usize,
    /// T, the number of new tokens of each.
    pub seq_len: usize,
    /// Tokens of each sequence that are in the cache already.
    pub past_len: usize,
    /// The position of each token in its sequence, padding not counted: (B, T).
    pub position_ids: &'a [u32],
    /// `true` where a key is a token and not padding: (B, past_len + T). None if all are.
    pub key_mask: Option<&'a [bool]>,
    /// The positions that logits are wanted for, counted through (B, T); `None` for all.
    pub wanted: Option<Vec<u32>>,
}

fn no_blocks(info: &ModelInfo) -> Error {
    Error::input(format!("keys and values cannot be copied out of a cache in {} on {}", info.engine, info.device))
        .hint("use `Engine::Kernels` on the CPU")
}

/// The error for a format in which an engine cannot keep keys and values.
pub(super) fn no_cache_in(format: CacheFormat, info: &ModelInfo) -> Error {
    Error::input(format!("keys and values in {format} are not supported by {} on {}", info.engine, info.device)).hint(
        "leave the format to the model, or use `Engine::Kernels` on the CPU, which has float32, float16, int8 and int4",
    )
}

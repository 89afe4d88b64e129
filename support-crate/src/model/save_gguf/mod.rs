//! A loaded model to a GGUF file.
//!
//! Source: ggml's `docs/gguf.md`; `llama-quant.cpp` of llama.cpp.

mod metadata;

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Mutex;

use quantlab_kernels::thread_scope;

use super::causal_lm::Seal;
use super::decoder::HEAD;
use super::engine_model::rows_of;
use super::weights::{Difference, POSITIONS, difference, name_in_gguf, row_in_transformers};
use super::{Architecture, DecoderConfig, ImportanceMatrix, Loaded, PlainTensor};
use crate::error::{Context, Error, Result};
use crate::interrupt;
use crate::progress::Progress;
use crate::quant::{GgufType, TensorPlace, encode_ggml};
use crate::source::{ALIGNMENT, FAMILIES, GgmlType, TensorPlan, header};
use metadata::Metadata;

/// About how many numbers are encoded before their bytes are written.
const NUMBERS_PER_CHUNK: usize = 1 << 22;

/// About as many as encoding takes.
const MULTIPLICATIONS_PER_NUMBER: usize = 500;

/// A tensor of the model, and what it becomes.
struct Export<'a> {
    tensor: PlainTensor<'a>,
    plan: TensorPlan,
    /// Rows of a head, whose halves the file has in turns.
    paired: Option<usize>,
    /// What is added to each number.
    shift: f32,
    importance: Option<&'a [f32]>,
}

impl Loaded {
    /// Writes the model as a GGUF file, which llama.cpp and [`load_model`](super::load_model) read.
    ///
    /// The formats of the tensors, and every byte of them, are those that llama.cpp's `llama-quantize` makes of the same
    /// weights for a file of this `kind`. With `importance`, scales are chosen so that errors matter least for texts
    /// like those that it was [collected](ImportanceMatrix::collect) from.
    ///
    /// The model must be of the type llama, mistral without a sliding window, qwen2, qwen3, smollm3, phi3, gemma2,
    /// gemma3_text or gpt2, and in full precision; what its config, tokenizer and chat template say is in the file too. The
    /// tokenizer is a byte-level BPE that llama.cpp has a name for, or SentencePiece's BPE, whose scores are made of the
    /// merges of `tokenizer.json`. (Of Phi-3's window, llama.cpp reads the size and computes none.)
    ///
    /// Takes memory for a few million numbers at a time; with bfloat16 or on other engines than the kernels, for one tensor.
    /// The file appears under its name only when it is complete, and saving a large model reports its progress on stdout.
    ///
    /// ```
    /// use quantlab::model::{LoadOptions, load_model};
    /// use quantlab::quant::GgufType;
    ///
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("embedded.Q8_0.gguf");
    /// let loaded = load_model(&["embedded"], &LoadOptions::default())?;
    /// loaded.save_gguf(&path, GgufType::Q8_0, None)?;
    /// let again = load_model(&[path.to_str().unwrap()], &LoadOptions::default())?;
    /// assert_eq!(again.dtype_label, "Q8_0 with inputs of 8 bits, rest float32");
    /// assert_eq!(again.tokenizer.encode("Once upon a time")?, loaded.tokenizer.encode("Once upon a time")?);
    /// # Ok::<(), quantlab::error::Error>(())
    /// ```
    ///
    /// With an importance matrix:
    ///
    /// ```no_run
    /// # use quantlab::model::{ImportanceMatrix, LoadOptions, load_model};
    /// # use quantlab::quant::GgufType;
    /// let loaded = load_model(&["smollm2:float32"], &LoadOptions::default())?;
    /// let importance = ImportanceMatrix::collect(&loaded, &["Once upon a time", "The capital of France is"])?;
    /// loaded.save_gguf("smollm2.Q4_K_M.gguf", GgufType::Q4KM, Some(&importance))?;
    /// let again = load_model(&["smollm2.Q4_K_M.gguf"], &LoadOptions::default())?;
    /// # Ok::<(), quantlab::error::Error>(())
    /// ```
    ///
    /// # Errors
    /// A path that does not end in `.gguf`, exists, or cannot be written to; a model of another type, that is quantized, or
    /// that has what a GGUF file cannot say: rotary angles, windows or attention scores that differ from those of its type
    /// in llama.cpp, a tokenizer that llama.cpp would not work as; one that was put together by [`Loaded::new`]; a weight
    /// that is NaN, infinite or too large for the format, by its tensor; an importance of another model.
    pub fn save_gguf(
        &self,
        path: impl AsRef<Path>,
        kind: GgufType,
        importance: Option<&ImportanceMatrix>,
    ) -> Result<()> {
        let path = path.as_ref();
        let of_path = || format!("saving to {}", path.display());
        let name = path.file_name().and_then(|name| name.to_str()).filter(|name| name.ends_with(".gguf"));
        let name = name.ok_or_else(|| {
            Error::input(format!("{} does not end in .gguf", path.display())).hint("it could not be loaded again")
        })?;
        if path.exists() {
            return Err(Error::input(format!("there is already a {}", path.display()))
                .hint("use another name, or remove the file first"));
        }
        let family = family(self.model.info().architecture)?;
        let files = self.files_to_save()?;
        let config = DecoderConfig::read(&files.config)?;
        let Metadata { values, divisors } = metadata::of(&self.model_id, files, (family, &config), kind)?;
        let tensors = self.model.engine_model(Seal).plain_tensors()?;
        let mut exports = exports(tensors, (family, &config), kind, importance)?;
        exports.extend(divisors.into_iter().map(|(name, numbers)| Export::plain(name, numbers)));
        let plans: Vec<TensorPlan> = exports.iter().map(|export| export.plan.clone()).collect();
        let header = header(&values, &plans)?;
        let incomplete = path.with_file_name(format!(".{name}.quantlab-{}.incomplete", std::process::id()));
        let saved = write(&incomplete, &header, exports)
            .and_then(|()| fs::rename(&incomplete, path).context(|| "cannot rename the complete file"));
        if saved.is_err() {
            let _ = fs::remove_file(&incomplete);
        }
        saved.context(of_path)
    }
}

/// llama.cpp's name for a family that this library writes.
fn family(architecture: Architecture) -> Result<&'static str> {
    let name = |architecture: Architecture| match architecture {
        Architecture::Mistral => "llama",
        Architecture::Gemma3Text => "gemma3",
        other => other.name(),
    };
    let is_written = |architecture: &Architecture| FAMILIES.contains(&name(*architecture));
    if !is_written(&architecture) {
        let known = Architecture::ALL.into_iter().filter(is_written).map(Architecture::name).collect::<Vec<_>>();
        return Err(Error::input(format!("a model of type {architecture} cannot be written to a GGUF file"))
            .hint(format!("models of type {} can", known.join(", "))));
    }
    Ok(name(architecture))
}

/// What becomes of each tensor.
fn exports<'a>(
    tensors: Vec<PlainTensor<'a>>,
    (family, config): (&str, &DecoderConfig),
    kind: GgufType,
    importance: Option<&'a ImportanceMatrix>,
) -> Result<Vec<Export<'a>>> {
    let head = format!("{HEAD}.weight");
    let is_tied = tensors.iter().all(|tensor| tensor.name != head);
    let export = |tensor: PlainTensor<'a>| {
        let found = name_in_gguf(&tensor.name, family).ok_or_else(|| {
            Error::input(format!("llama.cpp has no tensor `{}` in models of type {}", tensor.name, config.architecture))
        })?;
        let (part, block, name) = (found.part, found.block, found.to_string());
        let &columns = tensor.shape.last().ok_or_else(|| Error::system(format!("tensor `{name}` has no shape")))?;
        // Norms and biases are few and matter much, and of positions few are read.
        let is_matrix = tensor.shape.len() == 2 && part != POSITIONS;
        let place = TensorPlace {
            part,
            columns,
            block: block.unwrap_or(0),
            blocks: config.n_layer,
            is_tied,
            is_70b: config.n_layer == 80 && (family == "qwen2" || config.n_head != config.n_kv_head),
            has_importance: importance.is_some(),
        };
        let kind = if is_matrix { kind.of_tensor(place) } else { GgmlType::F32 };
        let difference = difference(family, part);
        let paired = matches!(difference, Some(Difference::HalvesInTurns { .. })).then_some(config.head_dim);
        let shift = if difference == Some(Difference::PlusOne) { 1.0 } else { 0.0 };
        let layer = tensor.name.strip_suffix(".weight").filter(|_| is_matrix);
        let importance = match (importance, layer) {
            (Some(importance), Some(layer)) => {
                let found = importance.of_columns(layer, columns)?;
                if found.is_none() && block.is_some() {
                    return Err(Error::input(format!("the importance has no layer `{layer}`"))
                        .hint("collect it with the model that is saved"));
                }
                found
            }
            _ => None,
        };
        let plan = TensorPlan { name, kind, shape: tensor.shape.clone() };
        Ok(Export { tensor, plan, paired, shift, importance })
    };
    tensors.into_iter().map(export).collect()
}

/// Writes the whole file.
fn write(path: &Path, header: &[u8], exports: Vec<Export<'_>>) -> Result<()> {
    let cannot = || "cannot write the file";
    let mut file = BufWriter::new(File::create(path).context(cannot)?);
    file.write_all(header).context(cannot)?;
    let mut progress = Progress::new("saving", exports.len(), "tensors");
    for export in exports {
        let name = export.tensor.name.clone();
        export.write(&mut file).context(|| format!("tensor `{name}`"))?;
        progress.advance(1);
    }
    // A file that is renamed is whole, even if the power fails.
    file.into_inner().map_err(std::io::IntoInnerError::into_error).context(cannot)?.sync_all().context(cannot)
}

impl Export<'_> {
    /// Numbers that are not the model's own.
    fn plain(name: &str, numbers: Vec<f32>) -> Self {
        let (name, shape) = (name.to_owned(), vec![numbers.len()]);
        let plan = TensorPlan { name: name.clone(), kind: GgmlType::F32, shape: shape.clone() };
        let tensor = PlainTensor { name, shape, open: Box::new(|| Ok(rows_of(numbers.into(), 1))) };
        Self { tensor, plan, paired: None, shift: 0.0, importance: None }
    }

    /// Encodes some rows and writes them, then the next.
    fn write(self, file: &mut impl Write) -> Result<()> {
        let Self { tensor: PlainTensor { shape, open, .. }, plan, paired, shift, importance } = self;
        let cannot = || "cannot write the file";
        // A vector is rows of one number, which may be in another order as well.
        let (rows, columns) = (shape[0], shape.get(1).copied().unwrap_or(1));
        let row_bytes = columns / plan.kind.block_len() * plan.kind.block_bytes();
        // Whole heads, within which rows change places.
        let step = (NUMBERS_PER_CHUNK / columns).max(1).next_multiple_of(paired.unwrap_or(1));
        let (reader, mut numbers, mut bytes) = (open()?, Vec::new(), Vec::new());
        for start in (0..rows).step_by(step) {
            interrupt::check()?;
            let end = rows.min(start + step);
            numbers.clear();
            reader(start..end, &mut numbers);
            if shift != 0.0 {
                numbers.iter_mut().for_each(|number| *number += shift);
            }
            bytes.resize((end - start) * row_bytes, 0);
            let failed = Mutex::new(None::<(usize, Error)>);
            thread_scope().split_mut(&mut bytes, row_bytes, MULTIPLICATIONS_PER_NUMBER * columns, &|first, part| {
                for (row, out) in (first..).zip(part.chunks_exact_mut(row_bytes)) {
                    let row = row_in_transformers(row, paired);
                    let numbers = &numbers[row * columns..(row + 1) * columns];
                    if let Err(error) = encode_ggml(plan.kind, numbers, importance, out) {
                        let mut failed = failed.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                        if failed.as_ref().is_none_or(|(other, _)| row < *other) {
                            *failed = Some((row, error));
                        }
                        return;
                    }
                }
            });
            if let Some((row, error)) = failed.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner) {
                return Err(error.context(format!("output {}", start + row)));
            }
            file.write_all(&bytes).context(cannot)?;
        }
        let len = plan.len()?;
        file.write_all(&[0; ALIGNMENT][..len.next_multiple_of(ALIGNMENT) - len]).context(cannot)
    }
}

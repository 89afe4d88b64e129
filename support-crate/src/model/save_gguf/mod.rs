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
use super::weights::{name_in_gguf, row_in_transformers};
use super::{Architecture, DecoderConfig, ImportanceMatrix, Loaded, PlainTensor};
use crate::error::{Context, Error, Result};
use crate::interrupt;
use crate::progress::Progress;
use crate::quant::{GgufType, TensorPlace, encode_ggml};
use crate::source::{ALIGNMENT, GgmlType, TensorPlan, header};

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
    importance: Option<&'a [f32]>,
}

impl Loaded {
    /// Writes the model as a GGUF file, which llama.cpp and [`load_model`](super::load_model) read.
    ///
    /// The formats of the tensors, and every byte of them, are those that llama.cpp's `llama-quantize` makes of the same
    /// weights for a file of this `kind`. With `importance`, scales are chosen so that errors matter least for texts
    /// like those that it was [collected](ImportanceMatrix::collect) from.
    ///
    /// The model must be of the Llama family (Llama, Mistral without a sliding window, Qwen2, Qwen3) and in full precision;
    /// what its config, tokenizer and chat template say is in the file too. Takes memory for a few million numbers at a
    /// time; with bfloat16 or on other engines than the kernels, for one tensor. The file appears under its name only
    /// when it is complete, and saving a large model reports its progress on stdout.
    ///
    /// ```
    /// use quantlab::model::{LoadOptions, load_model};
    /// use quantlab::quant::GgufType;
    ///
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("random.gguf");
    /// // The embedded model is a small GPT-2, a family that is only read.
    /// let loaded = load_model(&["embedded"], &LoadOptions::default())?;
    /// let error = loaded.save_gguf(&path, GgufType::Q4KM, None).unwrap_err();
    /// assert!(error.to_string().contains("a model of type gpt2 cannot be written"));
    /// # Ok::<(), quantlab::error::Error>(())
    /// ```
    ///
    /// With one of the Llama family:
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
    /// A path that does not end in `.gguf`, exists, or cannot be written to; a model of another family, that is
    /// quantized, or that has what a GGUF file cannot say: rotary angles scaled as in Llama 3.1, a tokenizer that
    /// llama.cpp has no name for; one that was put together by [`Loaded::new`]; a weight that is NaN, infinite or too
    /// large for the format, by its tensor; an importance of another model.
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
        let files = self.files.as_ref().ok_or_else(|| {
            Error::input("the model has no config.json to save: model and tokenizer were opened separately")
                .hint("load it with `load_model`")
        })?;
        let config = DecoderConfig::read(&files.config)?;
        let metadata = metadata::of(&self.model_id, files, (family, &config), kind)?;
        let exports = exports(self.model.engine_model(Seal).plain_tensors()?, (family, &config), kind, importance)?;
        let plans: Vec<TensorPlan> = exports.iter().map(|export| export.plan.clone()).collect();
        let header = header(&metadata, &plans)?;
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
    match architecture {
        Architecture::Llama | Architecture::Mistral => Ok("llama"),
        Architecture::Qwen2 => Ok("qwen2"),
        Architecture::Qwen3 => Ok("qwen3"),
        other => Err(Error::input(format!("a model of type {other} cannot be written to a GGUF file"))
            .hint("models of type llama, mistral, qwen2 and qwen3 can")),
    }
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
        let (block, part, end) = name_in_gguf(&tensor.name, family)
            .ok_or_else(|| Error::system(format!("tensor `{}` has no name in a GGUF file", tensor.name)))?;
        let name = block.map_or(format!("{part}.{end}"), |block| format!("blk.{block}.{part}.{end}"));
        let &columns = tensor.shape.last().ok_or_else(|| Error::system(format!("tensor `{name}` has no shape")))?;
        // Norms and biases are few and matter much.
        let is_matrix = tensor.shape.len() == 2;
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
        let is_turned = family == "llama" && ["attn_q", "attn_k"].contains(&part);
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
        Ok(Export { tensor, plan, paired: is_turned.then_some(config.head_dim), importance })
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
    /// Encodes some rows and writes them, then the next.
    fn write(self, file: &mut impl Write) -> Result<()> {
        let Self { tensor: PlainTensor { shape, open, .. }, plan, paired, importance } = self;
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

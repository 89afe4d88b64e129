//! The first of several models that can be loaded, with its own tokenizer.

use serde_json::Value;

use super::decoder::{Decoder, check_tied};
use super::tensor_library::{Candle, Torch};
use super::{
    CausalLm, DecoderConfig, Device, Engine, Fold, Precision, ResolvedDtype, Tokenizer, Weights, kernels,
    resolve_dtype, token_ids,
};
use crate::error::{Context, Error, ErrorKind, Result};
use crate::output::harmless;
use crate::quant::QuantizationConfig;
use crate::source::{ModelFiles, ModelId};

/// A model that is ready to run, with the tokenizer from the same place.
#[derive(Debug)]
pub struct Loaded {
    /// The model.
    pub model: Box<dyn CausalLm>,
    /// Its tokenizer.
    pub tokenizer: Tokenizer,
    /// The candidate that was loaded.
    pub model_id: String,
    /// The precision in words, for example `float32 (forced on CPU)` or `nf4, rest bfloat16`.
    pub dtype_label: String,
    /// Candidates that were tried before and could not be loaded.
    pub skipped: Vec<SkippedCandidate>,
    /// Tensors of the files that the model has no use for.
    pub unused_tensors: Vec<String>,
    /// What else its files say and loading has not done, in words.
    pub notes: Vec<String>,
    /// How the layers are quantized, if they are.
    pub quantization: Option<QuantizationConfig>,
    /// What was folded into the weights, if anything was.
    pub fold: Option<Fold>,
    /// Where it was loaded from, if both halves came from one place.
    pub files: Option<ModelFiles>,
}

/// How a model is loaded. `LoadOptions::default()`: float32 on the CPU, computed by this library's own kernels.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LoadOptions {
    /// The format of the weights; resolved with [`resolve_dtype`].
    pub precision: Precision,
    /// Where the model computes.
    pub device: Device,
    /// What computes. `None`: [`Engine::for_device`], which is the kernels on a CPU and libtorch on a GPU.
    pub engine: Option<Engine>,
    /// Quantizes the layers while they are loaded; a checkpoint that is quantized says so itself.
    pub quantization: Option<QuantizationConfig>,
    /// Changes the weights before they are quantized, and not what the model computes. Those of a GGUF file are restored.
    pub fold: Option<Fold>,
    /// Whether weights that are NaN or infinite are an error. Looking at every weight costs little.
    pub check_finite: bool,
    /// Restores the weights of a GGUF file to `precision`. Otherwise the kernels multiply them as the file has them, with
    /// inputs rounded to 8 bits as llama.cpp does; the other engines, and `quantization`, always restore them. The layers
    /// of a checkpoint that [others](crate::quant::CHECKPOINTS) quantized to 4 bits stay packed on every engine, unless
    /// this or `quantization` is set.
    pub dequantize: bool,
}

impl LoadOptions {
    /// The engine that is to compute.
    fn engine(&self) -> Engine {
        self.engine.unwrap_or_else(|| Engine::for_device(self.device))
    }
}

/// A model that could not be loaded, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedCandidate {
    /// As it was given.
    pub model_id: String,
    /// The error, in one line.
    pub reason: String,
}

/// Loads the first of `candidates` that can be loaded.
///
/// Each is a repository on the Hub (`openai-community/gpt2`), a folder, a GGUF file, `smollm2`, `embedded`,
/// `embedded:qat` or `random:gpt2`; see [`ModelId`]. The precision is a name such as `"float16"` or a [`Precision`], and is resolved
/// with [`resolve_dtype`] first.
///
/// ```
/// use quantlab::model::{best_device, load_model_and_tokenizer};
///
/// let loaded = load_model_and_tokenizer(&["/no/such/folder", "embedded"], "float16", best_device())?;
/// assert_eq!(loaded.model_id, "embedded");
/// println!("{}", loaded.summary());
/// # Ok::<(), quantlab::error::Error>(())
/// ```
///
/// # Errors
/// An unknown precision or device, no candidates, or, if all of them fail, one error that lists each
/// with its reason.
pub fn load_model_and_tokenizer<P>(candidates: &[&str], precision: P, device: Device) -> Result<Loaded>
where
    P: TryInto<Precision>,
    Error: From<P::Error>,
{
    let precision = precision.try_into()?;
    load_model(candidates, &LoadOptions { precision, device, ..LoadOptions::default() })
}

/// As [`load_model_and_tokenizer`], with every option.
///
/// ```
/// use quantlab::model::{Engine, LoadOptions, load_model};
///
/// let loaded = load_model(&["embedded"], &LoadOptions { engine: Some(Engine::Tch), ..LoadOptions::default() })?;
/// assert_eq!(loaded.model.info().engine, Engine::Tch);
/// # Ok::<(), quantlab::error::Error>(())
/// ```
///
/// # Errors
/// As [`load_model_and_tokenizer`].
pub fn load_model(candidates: &[&str], options: &LoadOptions) -> Result<Loaded> {
    let resolved = resolve_dtype(options.precision, options.device)?;
    // A device that is not there is not the fault of any candidate.
    options.engine().check_device(options.device)?;
    let mut skipped = Vec::new();
    for &candidate in candidates {
        match load(candidate, &resolved, options) {
            Ok(loaded) => return Ok(Loaded { skipped, ..loaded }),
            Err(error) if error.kind() == ErrorKind::Interrupted => return Err(error),
            Err(error) if candidates.len() == 1 => return Err(error.context(format!("cannot load `{candidate}`"))),
            Err(error) => skipped.push(SkippedCandidate { model_id: candidate.to_owned(), reason: error.to_string() }),
        }
    }
    if skipped.is_empty() {
        return Err(
            Error::input("there are no candidates to load").hint("give at least one model id, such as `embedded`")
        );
    }
    let reasons: Vec<String> =
        skipped.iter().map(|skipped| format!("\n  - {}: {}", skipped.model_id, skipped.reason)).collect();
    Err(Error::source(format!("none of the {} candidates could be loaded:{}", skipped.len(), reasons.concat()))
        .hint("add `embedded` as the last candidate; it needs no network"))
}

fn load(candidate: &str, resolved: &ResolvedDtype, options: &LoadOptions) -> Result<Loaded> {
    let ResolvedDtype { dtype, label: rest } = resolved;
    let (files, options) = &resolve(candidate, options)?;
    let config = read_config(files)?;
    let tokenizer = Tokenizer::read(&files.tokenizer)?;
    tokenizer.check_fits(&files.tokenizer.to_string(), config.vocab_size)?;
    // A config that cannot be read matters once there is a chat, which says so.
    let notes = files.tokenizer_config().map_or_else(|_| Vec::new(), |config| tokenizer.missing_ends(&config));
    let Read { model, quantization, read_from, kept_in, restored_from, unused_tensors } =
        read_model(files, config, *dtype, options)?;
    let from = read_from.map_or(String::new(), |checkpoint| format!(" from {checkpoint}"));
    let mut dtype_label = quantization.as_ref().map_or(rest.clone(), |format| format!("{format}{from}, rest {rest}"));
    if !kept_in.is_empty() {
        dtype_label = format!("{} with inputs of 8 bits, rest {rest}", kept_in.join(" and "));
    }
    if !restored_from.is_empty() {
        dtype_label += &format!(", restored from {}", restored_from.join(" and "));
    }
    if let Some(fold) = &options.fold {
        dtype_label += &format!(", folded: {fold}");
    }
    Ok(Loaded {
        model,
        tokenizer,
        model_id: candidate.trim().to_owned(),
        dtype_label,
        skipped: Vec::new(),
        unused_tensors,
        notes,
        quantization,
        fold: options.fold.clone(),
        files: Some(files.clone()),
    })
}

/// A model's files, and the options that its id asks for.
fn resolve(model_id: &str, options: &LoadOptions) -> Result<(ModelFiles, LoadOptions)> {
    let id: ModelId = model_id.parse()?;
    let dequantize = options.dequantize || options.fold.is_some() || id == ModelId::Smollm2Float32;
    Ok((id.resolve()?, LoadOptions { dequantize, ..options.clone() }))
}

/// The config, with what ends a text by `generation_config.json`, if there is one, too: models that chat often name the
/// end of a reply only there. (transformers' `generate` stops at these alone.)
fn read_config(files: &ModelFiles) -> Result<DecoderConfig> {
    let mut config = DecoderConfig::read(&files.config)?;
    if let Some(file) = files.other("generation_config.json") {
        let generation: Value = serde_json::from_slice(&file.read_config()?).context(|| file.to_string())?;
        for id in token_ids(&generation["eos_token_id"]) {
            if !config.eos_token_ids.contains(&id) {
                config.eos_token_ids.push(id);
            }
        }
    }
    Ok(config)
}

/// The tokenizer of one model.
pub(super) fn open_tokenizer(model_id: &str) -> Result<Tokenizer> {
    Tokenizer::read(&model_id.parse::<ModelId>()?.resolve()?.tokenizer)
}

/// One model without its tokenizer.
pub(super) fn open_model(model_id: &str, options: &LoadOptions) -> Result<Box<dyn CausalLm>> {
    let dtype = resolve_dtype(options.precision, options.device)?.dtype;
    options.engine().check_device(options.device)?;
    let (files, options) = &resolve(model_id, options)?;
    let config = read_config(files)?;
    Ok(read_model(files, config, dtype, options)?.model)
}

struct Read {
    model: Box<dyn CausalLm>,
    /// What it is quantized to.
    quantization: Option<QuantizationConfig>,
    /// The layout of the checkpoint whose layers it has as they were.
    read_from: Option<String>,
    /// The formats that its weights are multiplied in as the file has them.
    kept_in: Vec<&'static str>,
    /// The formats that its weights had been rounded to before.
    restored_from: Vec<String>,
    /// Those that it had no use for.
    unused_tensors: Vec<String>,
}

fn read_model(files: &ModelFiles, config: DecoderConfig, dtype: Precision, options: &LoadOptions) -> Result<Read> {
    let weights = Weights::open(&files.weights, options.check_finite)?;
    check_tied(&config, &weights)?;
    let (config, weights) = match &options.fold {
        Some(fold) => fold.apply(config, weights)?,
        None => (config, weights),
    };
    let quantization = match (config.quantization.clone(), &options.quantization) {
        (Some(_), Some(_)) => {
            return Err(Error::input("the checkpoint is already quantized").hint("load it without `quantization`"));
        }
        (of_checkpoint, wanted) => of_checkpoint.or_else(|| wanted.clone()),
    };
    let keep = !options.dequantize && quantization.is_none();
    let DecoderConfig { hidden_size, intermediate_size, n_head, head_dim, .. } = config;
    let rows = [hidden_size, intermediate_size, n_head * head_dim];
    let group = config.checkpoint.as_ref().and_then(|checkpoint| checkpoint.int4_group(&rows)).filter(|_| keep);
    let weights = weights.of_checkpoint(config.checkpoint.clone(), group);
    let (device, engine, of_layers) = (options.device, options.engine(), quantization.as_ref());
    let model: Box<dyn CausalLm> = match engine {
        Engine::Kernels => kernels::load(config, &weights, dtype, of_layers, options.dequantize)?,
        Engine::Candle => {
            let store = Candle::new(device, dtype)?;
            Box::new(Decoder::load(config, &weights, of_layers, engine, device, dtype, store)?)
        }
        Engine::Tch => {
            let store = Torch::new(device, dtype)?;
            Box::new(Decoder::load(config, &weights, of_layers, engine, device, dtype, store)?)
        }
    };
    let kept = weights.kept_quantization(dtype);
    Ok(Read {
        model,
        read_from: weights.checkpoint_label().filter(|_| kept.is_some()),
        quantization: quantization.or(kept),
        kept_in: weights.kept_in(),
        restored_from: weights.restored_from(),
        unused_tensors: weights.unused(),
    })
}

impl Loaded {
    /// A model and a tokenizer that were opened one by one, for example through a
    /// [`ModelHub`](super::ModelHub).
    ///
    /// # Errors
    /// The tokenizer has tokens, other than one added mark, that the model does not know: they are not from the same place.
    pub fn new(
        tokenizer: Tokenizer,
        model: Box<dyn CausalLm>,
        model_id: impl Into<String>,
        dtype_label: impl Into<String>,
    ) -> Result<Self> {
        let model_id = model_id.into();
        tokenizer.check_fits(&format!("the tokenizer of {model_id}"), model.info().vocab_size)?;
        Ok(Self {
            model,
            tokenizer,
            model_id,
            dtype_label: dtype_label.into(),
            skipped: Vec::new(),
            unused_tensors: Vec::new(),
            notes: Vec::new(),
            quantization: None,
            fold: None,
            files: None,
        })
    }

    /// One line on what was loaded: `Loaded: embedded | dtype=float32 (forced on CPU) | ...`.
    pub fn summary(&self) -> String {
        let info = self.model.info();
        let unused = match self.unused_tensors.as_slice() {
            [] => String::new(),
            [name] => format!(" | unused: {name}"),
            [name, ..] => format!(" | unused: {name} and {} more", self.unused_tensors.len() - 1),
        };
        let notes: String = self.notes.iter().map(|note| format!(" | {note}")).collect();
        harmless(&format!(
            "Loaded: {} | dtype={} | device={} | engine={} | {:.1} M parameters, {:.1} MiB{unused}{notes}",
            self.model_id,
            self.dtype_label,
            info.device,
            info.engine,
            info.num_parameters as f64 / 1e6,
            info.parameter_bytes as f64 / (1024.0 * 1024.0),
        ))
    }
}

//! A loaded model to a checkpoint.

use std::fs;
use std::path::Path;

use serde_json::{Map, Value};

use super::causal_lm::Seal;
use super::{Fold, Loaded};
use crate::error::{Context, Error, Result};
use crate::quant::{Checkpoint, Head, QuantizationConfig};
use crate::source::{CONFIG, ModelFile, ModelFiles, TOKENIZER, WEIGHTS, WEIGHTS_INDEX};

impl Loaded {
    /// Writes the model into a folder, as transformers and bitsandbytes save it, so that both these and
    /// [`load_model`](super::load_model) load it. Quantized layers keep every bit. Affine int4 is written as
    /// compressed-tensors packs it (`pack-quantized`), whatever the layout of the checkpoint that it was read from;
    /// layers of such a checkpoint that were restored are written in the precision of the model. No config says what
    /// affine int4 is computed in or how many codes of 4 bits are used: when it is loaded again, it is int4 in the
    /// precision of the model, whatever its `compute_dtype` was.
    ///
    /// `model.safetensors` is one file whatever its size; transformers, which splits at 5 GB, reads that as well.
    /// `config.json` is the model's own with its `dtype` and `quantization_config`. A head that was tied to the
    /// token embedding and is quantized, or turned by [`Fold::hadamard`], is a matrix of its own (`tie_word_embeddings`
    /// is `false`). transformers has no head in int8 beside layers in 4 bits and does not load such a checkpoint; beside
    /// int8 layers it computes the head with their threshold. The tokenizer and the rest
    /// ([`OTHERS`](crate::source::OTHERS)) are copied.
    ///
    /// Takes memory for one tensor at a time; on other engines than the kernels, also for a copy of quantized weights,
    /// which are read back from their tensors. The files appear under their names only when all are written, and
    /// saving a large model reports its progress on stdout.
    ///
    /// ```
    /// use quantlab::prelude::*;
    ///
    /// # let parent = tempfile::tempdir().unwrap();
    /// # let folder = parent.path().join("nf4");
    /// let options = LoadOptions { quantization: Some(QuantizationConfig::nf4()), ..LoadOptions::default() };
    /// load_model(&["embedded"], &options)?.save_pretrained(&folder)?;
    /// let again = load_model(&[folder.to_str().unwrap()], &LoadOptions::default())?;
    /// assert_eq!(again.quantization, options.quantization);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// A folder that cannot be written to, or that holds a checkpoint already; a file that the model was loaded
    /// from and that is gone; a model that was put together by [`Loaded::new`] or is in static int8 or W4A8, which a
    /// config.json cannot express; zero points that are no whole numbers (HQQ).
    pub fn save_pretrained(&self, folder: impl AsRef<Path>) -> Result<()> {
        let folder = folder.as_ref();
        let files = self.files_to_save()?;
        // Before anything is written.
        self.quantization.as_ref().map(QuantizationConfig::to_json).transpose()?;
        let others = files.others.iter().map(|(name, _)| *name);
        // A folder becomes a checkpoint when its config is there.
        let names: Vec<&str> = others.chain([TOKENIZER, WEIGHTS, CONFIG]).collect();
        if let Some(name) = names.iter().chain([&WEIGHTS_INDEX]).find(|name| folder.join(name).exists()) {
            return Err(Error::input(format!("{} already holds a {name}", folder.display()))
                .hint("use another folder, or remove the checkpoint from this one first"));
        }
        let incomplete = folder.join(format!(".quantlab-{}.incomplete", std::process::id()));
        fs::create_dir_all(&incomplete).context(|| format!("cannot create a folder in {}", folder.display()))?;
        let saved = self.write_files(files, &incomplete).and_then(|()| {
            names.iter().try_for_each(|name| {
                fs::rename(incomplete.join(name), folder.join(name)).context(|| format!("cannot write {name}"))
            })
        });
        let _ = fs::remove_dir_all(&incomplete);
        saved.context(|| format!("saving to {}", folder.display()))
    }

    /// What the model was loaded from, and is saved with.
    ///
    /// # Errors
    /// The model was put together by [`Loaded::new`].
    pub(super) fn files_to_save(&self) -> Result<&ModelFiles> {
        self.files.as_ref().ok_or_else(|| {
            Error::input("the model has no config.json to save: model and tokenizer were opened separately")
                .hint("load it with `load_model`")
        })
    }

    fn write_files(&self, files: &ModelFiles, folder: &Path) -> Result<()> {
        let write =
            |name: &str, bytes: &[u8]| fs::write(folder.join(name), bytes).context(|| format!("cannot write {name}"));
        write(TOKENIZER, &files.tokenizer.read()?)?;
        for (name, file) in &files.others {
            write(name, &file.read()?)?;
        }
        let saved = self.model.engine_model(Seal).save_weights(&folder.join(WEIGHTS))?;
        write(CONFIG, &self.config_json(&files.config, &saved)?)
    }

    /// The config that the model was loaded with, updated to the model as it is now; `saved` are its tensors.
    fn config_json(&self, source: &ModelFile, saved: &[(String, Vec<usize>)]) -> Result<Vec<u8>> {
        let mut config: Map<String, Value> =
            serde_json::from_slice(&source.read_config()?).context(|| source.to_string())?;
        // What older versions of transformers call it.
        let dtype = if config.contains_key("torch_dtype") { "torch_dtype" } else { "dtype" };
        config.insert(dtype.to_owned(), self.model.info().dtype.to_string().into());
        if self.fold.as_ref().is_some_and(Fold::unties_head) {
            config.insert("tie_word_embeddings".to_owned(), false.into());
        }
        let was_quantized = config.get("quantization_config").is_some_and(|value| !value.is_null());
        let by_bitsandbytes = was_quantized && Checkpoint::read(&config["quantization_config"])?.is_none();
        if self.quantization.is_none() {
            // Layers that were restored are saved so.
            config.remove("quantization_config");
        }
        if let Some(quantization) = self.quantization.as_ref().filter(|_| !by_bitsandbytes) {
            config.insert("quantization_config".to_owned(), quantization.to_json_of(saved)?);
            if quantization.head != Head::AsLoaded {
                config.insert("tie_word_embeddings".to_owned(), false.into());
            }
        }
        let mut text = serde_json::to_string_pretty(&config)?;
        text.push('\n');
        Ok(text.into_bytes())
    }
}

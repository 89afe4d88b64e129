//! Layers that somebody else quantized: kept packed where kernels can multiply them, and restored where not.

use std::sync::atomic::{AtomicBool, Ordering};

use quantlab_kernels::thread_scope;

use super::{Origin, Wanted, Weights};
use crate::error::{Error, Result};
use crate::interrupt;
use crate::precision::Precision;
use crate::quant::{Checkpoint, Head, PackedLayer, Part, Parts, QuantizationConfig};

/// How files store quantized layers.
pub(super) struct Packing {
    checkpoint: Checkpoint,
    /// The size of the groups in which layers of 4 bits stay packed; `None` if all are to be restored.
    group: Option<usize>,
}

/// What became of the layers.
#[derive(Default)]
pub(super) struct Outcome {
    /// Those that stayed packed.
    kept: Vec<String>,
    /// Those that were stored in full precision or restored to it, the head not among them.
    plain: Vec<String>,
    /// Whether any was restored.
    restored: bool,
}

/// The tensors of a layer.
struct PartsOf<'a> {
    weights: &'a Weights,
    module: &'a str,
}

impl Parts for PartsOf<'_> {
    fn find(&self, part: &str) -> Result<Option<Part>> {
        let name = format!("{}.{part}", self.module);
        if !self.weights.contains(&name) {
            return Ok(None);
        }
        self.weights.file_with(&name)?.whole(&name).map(Some)
    }
}

/// What comes before the names of a layer's tensors.
fn module_of(name: &str) -> &str {
    name.strip_suffix(".weight").unwrap_or(name)
}

impl Weights {
    /// Reads quantized layers as `checkpoint` stores them; affine int4 is to stay packed in groups of `group` weights.
    pub(in crate::model) fn of_checkpoint(self, checkpoint: Option<Checkpoint>, group: Option<usize>) -> Self {
        Self { packing: checkpoint.map(|checkpoint| Packing { checkpoint, group }), ..self }
    }

    /// Whether the files have codes of one byte under this name, as bitsandbytes has them.
    pub(in crate::model) fn has_codes(&self, name: &str) -> bool {
        let Origin::Files { files, file_of } = &self.origin else { return false };
        file_of.get(name).is_some_and(|&index| files[index].has_bytes(name))
    }

    /// Whether the files have the weight of this name quantized.
    pub(in crate::model) fn is_packed(&self, name: &str) -> bool {
        let (Origin::Files { file_of, .. }, Some(packing)) = (&self.origin, &self.packing) else { return false };
        file_of.contains_key(&format!("{}.{}", module_of(name), packing.checkpoint.marker()))
    }

    /// A linear layer, and the size of its groups, if it is to stay packed. `module` is its name in transformers.
    ///
    /// # Errors
    /// As [`Checkpoint::layer`]; a layer that should be quantized and is not.
    pub(in crate::model) fn int4(
        &self,
        (module, name): (&str, &str),
        shape: [usize; 2],
    ) -> Result<Option<(PackedLayer, usize)>> {
        let Some(Packing { checkpoint, group }) = &self.packing else { return Ok(None) };
        if !self.is_packed(name) {
            checkpoint.check_left(module)?;
        }
        let layer = if group.is_some() { self.layer(name, shape)? } else { None };
        let kept = layer.zip(*group).filter(|(layer, group)| layer.is_int4(*group));
        if let Some((layer, group)) = kept.as_ref().filter(|_| self.check_finite)
            && layer
                .scales(*group)
                .iter()
                .any(|[scale, minimum]| !minimum.is_finite() || !(15.0 * scale + minimum).is_finite())
        {
            return Err(Error::format(format!("`{name}` holds a NaN or an infinity"))
                .hint("the file is damaged, or its quantization went wrong; download it again or use another model"));
        }
        let mut outcome = self.outcome.borrow_mut();
        let list = if kept.is_some() { &mut outcome.kept } else { &mut outcome.plain };
        list.push(module.to_owned());
        Ok(kept)
    }

    /// A matrix that the files have quantized.
    ///
    /// # Errors
    /// As [`Checkpoint::layer`].
    pub(super) fn layer(&self, name: &str, shape: [usize; 2]) -> Result<Option<PackedLayer>> {
        let Some(packing) = self.packing.as_ref().filter(|_| self.is_packed(name)) else { return Ok(None) };
        let module = module_of(name);
        let layer = packing.checkpoint.layer(module, shape, &PartsOf { weights: self, module });
        layer.map(Some).map_err(|error| error.in_file().context(format!("`{module}`")))
    }

    /// Reads whole rows of a matrix that the files have quantized, from the number `start` on; whether they have it.
    ///
    /// # Errors
    /// As [`Checkpoint::layer`]; a weight that is NaN, if that is looked at.
    pub(super) fn restore<T: Wanted>(
        &self,
        name: &str,
        shape: &[usize],
        start: usize,
        numbers: &mut [T],
    ) -> Result<bool> {
        let &[n, k] = shape else { return Ok(false) };
        let Some(layer) = self.layer(name, [n, k])? else { return Ok(false) };
        interrupt::check()?;
        let finite = AtomicBool::new(true);
        thread_scope().split_mut(numbers, k, 8 * k, &|first, part| {
            let (mut rows, mut weights) = (layer.rows(), vec![0.0; k]);
            for (row, numbers) in (start / k + first..).zip(part.chunks_exact_mut(k)) {
                rows.restore(row, &mut weights);
                let all_finite = weights.iter().fold(true, |finite, weight| finite & weight.is_finite());
                finite.fetch_and(all_finite, Ordering::Relaxed);
                numbers.iter_mut().zip(&weights).for_each(|(number, weight)| *number = T::from_f32(*weight));
            }
        });
        self.outcome.borrow_mut().restored = true;
        if self.check_finite && !finite.into_inner() {
            return Err(Error::format(format!("`{name}` holds a NaN"))
                .hint("the file is damaged, or its quantization went wrong; download it again or use another model"));
        }
        Ok(true)
    }

    /// How the files store quantized layers, if any was read.
    pub(in crate::model) fn checkpoint_label(&self) -> Option<String> {
        let outcome = self.outcome.borrow();
        let was_read = outcome.restored || !outcome.kept.is_empty();
        self.packing.as_ref().filter(|_| was_read).map(|packing| packing.checkpoint.to_string())
    }

    /// Whether a quantized layer was restored.
    pub(in crate::model) fn has_restored_layers(&self) -> bool {
        self.outcome.borrow().restored
    }

    /// What quantizing the model in full precision would have to be told for layers like those that stayed packed.
    pub(in crate::model) fn kept_quantization(&self, dtype: Precision) -> Option<QuantizationConfig> {
        let outcome = self.outcome.borrow();
        let group = self.packing.as_ref().and_then(|packing| packing.group).filter(|_| !outcome.kept.is_empty())?;
        let head_is_kept = outcome.kept.iter().any(|module| module == "lm_head");
        Some(QuantizationConfig {
            skip_modules: Some(outcome.plain.clone()).filter(|plain| !plain.is_empty()),
            head: if head_is_kept { Head::AsLayers } else { Head::AsLoaded },
            compute_dtype: dtype,
            ..QuantizationConfig::int4(group)
        })
    }
}

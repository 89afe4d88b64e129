//! GPT-2 checkpoints with random weights on disk, for measuring how they load.

use std::borrow::Cow;
use std::fs;
use std::path::Path;

use quantlab::error::Result;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use safetensors::Dtype;
use safetensors::tensor::{View, serialize_to_file};
use serde::Deserialize;

/// What the shapes of the tensors follow from, as `config.json` calls it.
#[derive(Deserialize)]
struct Shape {
    vocab_size: usize,
    n_positions: usize,
    n_embd: usize,
    n_layer: usize,
}

/// A tensor in float32 whose numbers are made when they are written: no file is ever in memory as a whole.
struct Made {
    name: String,
    shape: Vec<usize>,
}

/// Writes a checkpoint for this config into a folder, as `save_pretrained` lays it out.
///
/// # Errors
/// A config that is not one of a GPT-2, or a folder that cannot be written to.
pub fn write_gpt2(folder: &Path, config: &[u8], tokenizer: &[u8]) -> Result<()> {
    let tensors = tensors(&serde_json::from_slice(config)?);
    fs::create_dir_all(folder)?;
    fs::write(folder.join("config.json"), config)?;
    fs::write(folder.join("tokenizer.json"), tokenizer)?;
    let named = tensors.into_iter().map(|tensor| (tensor.name.clone(), tensor));
    Ok(serialize_to_file(named, None, &folder.join("model.safetensors"))?)
}

fn tensors(shape: &Shape) -> Vec<Made> {
    let Shape { vocab_size, n_positions, n_embd: c, n_layer } = *shape;
    let made = |name: &str, shape: &[usize]| Made { name: format!("transformer.{name}"), shape: shape.to_vec() };
    let mut tensors = vec![
        made("wte.weight", &[vocab_size, c]),
        made("wpe.weight", &[n_positions, c]),
        made("ln_f.weight", &[c]),
        made("ln_f.bias", &[c]),
    ];
    for layer in 0..n_layer {
        for norm in ["ln_1", "ln_2"] {
            tensors.extend(["weight", "bias"].map(|part| made(&format!("h.{layer}.{norm}.{part}"), &[c])));
        }
        for (linear, n_in, n_out) in
            [("attn.c_attn", c, 3 * c), ("attn.c_proj", c, c), ("mlp.c_fc", c, 4 * c), ("mlp.c_proj", 4 * c, c)]
        {
            tensors.push(made(&format!("h.{layer}.{linear}.weight"), &[n_in, n_out]));
            tensors.push(made(&format!("h.{layer}.{linear}.bias"), &[n_out]));
        }
    }
    tensors
}

impl View for Made {
    fn dtype(&self) -> Dtype {
        Dtype::F32
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data_len(&self) -> usize {
        self.shape.iter().product::<usize>() * size_of::<f32>()
    }

    /// As GPT-2 starts its training: layer norms that change nothing, biases of 0, small random matrices.
    fn data(&self) -> Cow<'_, [u8]> {
        let mut bytes = vec![0; self.data_len()];
        if !self.name.ends_with(".bias") {
            let is_norm = self.name.contains("ln_");
            let mut random = StdRng::seed_from_u64(self.name.bytes().map(u64::from).sum());
            for number in bytes.chunks_exact_mut(size_of::<f32>()) {
                let value = if is_norm { 1.0 } else { random.random_range(-0.035_f32..0.035) };
                number.copy_from_slice(&value.to_le_bytes());
            }
        }
        Cow::Owned(bytes)
    }
}

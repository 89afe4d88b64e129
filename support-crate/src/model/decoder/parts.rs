//! The tensors of a decoder-only transformer, by what they do rather than by what each family calls them.

use crate::error::{Error, Result};
use crate::model::weights::Slot;
use crate::model::{Architecture, DecoderConfig, NormKind, Positions, Precision, Weights};

/// Letters in shapes: V tokens in the vocabulary, C width of the hidden state, H heads, J heads of keys
/// and values, D width of a head, I width inside the feed-forward part.
#[derive(Debug)]
pub(in crate::model) struct Parts<T> {
    pub token_embedding: T,            // (V, C)
    pub position_embedding: Option<T>, // (context, C)
    pub blocks: Vec<Block<T>>,
    pub final_norm: Norm<T>,
    /// C -> V; the token embedding if the model has no separate one.
    pub head: Option<T>,
}

#[derive(Debug)]
pub(in crate::model) struct Block<T> {
    pub attention_norm: Norm<T>,
    /// C -> (H + 2 J) D: queries, keys and values.
    pub attention_in: Linear<T>,
    /// H D -> C
    pub attention_out: Linear<T>,
    pub mlp_norm: Norm<T>,
    /// C -> I; the gate of a gated part.
    pub mlp_in: Linear<T>,
    /// C -> I, of a gated part only.
    pub mlp_up: Option<Linear<T>>,
    /// I -> C
    pub mlp_out: Linear<T>,
}

/// `y = x W^T + b`
#[derive(Debug)]
pub(in crate::model) struct Linear<T> {
    /// (out, in)
    pub weight: T,
    /// (out)
    pub bias: Option<T>,
}

#[derive(Debug)]
pub(in crate::model) struct Norm<T> {
    pub scale: T,         // (C)
    pub shift: Option<T>, // (C)
}

/// Where tensors are kept: a backend and its device.
pub(in crate::model) trait Memory {
    type Tensor;

    /// A tensor of this shape and format, filled by `fill`.
    ///
    /// # Errors
    /// No room for it, or what `fill` reports.
    fn tensor(
        &self,
        shape: &[usize],
        dtype: Precision,
        fill: &mut dyn FnMut(Slot<'_>) -> Result<()>,
    ) -> Result<Self::Tensor>;
}

/// What loading has counted.
#[derive(Debug, Default, Clone, Copy)]
pub(in crate::model) struct Counts {
    pub parameters: usize,
    pub bytes: usize,
    /// Bytes of the tables of which a step reads single rows.
    pub tables: usize,
}

/// Reads tensors by the names that a family has for them.
pub(in crate::model) struct Loader<'a, M> {
    pub config: &'a DecoderConfig,
    pub weights: &'a Weights,
    pub memory: &'a M,
    /// The format of what is multiplied as a matrix.
    pub dtype: Precision,
    /// The format of what is added or scaled with: what is computed in.
    pub compute: Precision,
    counts: Counts,
    prefix: &'static str,
}

impl<'a, M: Memory> Loader<'a, M> {
    pub fn new(
        config: &'a DecoderConfig,
        weights: &'a Weights,
        memory: &'a M,
        dtype: Precision,
        compute: Precision,
    ) -> Self {
        // Some checkpoints are saved with the head around the model, some without.
        let (first, with_head) = match config.architecture {
            Architecture::Gpt2 => ("transformer.wte.weight", "transformer."),
            _ => ("model.embed_tokens.weight", "model."),
        };
        let prefix = if weights.contains(first) { with_head } else { "" };
        Self { config, weights, memory, dtype, compute, counts: Counts::default(), prefix }
    }

    /// Reads everything.
    ///
    /// # Errors
    /// A tensor that is missing or does not fit the config, by name.
    pub fn load(mut self) -> Result<(Parts<M::Tensor>, Counts)> {
        let (config, gpt2) = (self.config, self.config.architecture == Architecture::Gpt2);
        let (v, c) = (config.vocab_size, config.hidden_size);
        let prefix = self.prefix;
        let own = |name: &str| format!("{prefix}{name}");
        let names = if gpt2 { ["wte.weight", "ln_f"] } else { ["embed_tokens.weight", "norm"] }.map(own);
        let token_embedding = self.matrix(&[(&names[0], v)], c, false)?;
        let mut tables = self.counts.bytes;
        let position_embedding = match config.positions {
            Positions::Learned => {
                let name = own("wpe.weight");
                let table = self.matrix(&[(&name, config.context_len)], c, false)?;
                tables = self.counts.bytes;
                Some(table)
            }
            Positions::Rotary { .. } => None,
        };
        let mut blocks = Vec::new();
        for layer in 0..config.n_layer {
            blocks.push(if gpt2 { self.gpt2_block(layer)? } else { self.llama_block(layer)? });
        }
        let final_norm = self.norm(&names[1])?;
        let head = match config.tie_word_embeddings {
            true => None,
            false => Some(self.matrix(&[("lm_head.weight", v)], c, false)?),
        };
        if head.is_none() {
            // A tied head reads the whole token embedding.
            tables -= v * c * self.dtype.size_in_bytes();
        }
        self.counts.tables = tables;
        Ok((Parts { token_embedding, position_embedding, blocks, final_norm, head }, self.counts))
    }

    fn gpt2_block(&mut self, layer: usize) -> Result<Block<M::Tensor>> {
        let (c, inner) = (self.config.hidden_size, self.config.intermediate_size);
        let prefix = self.prefix;
        let name = |part: &str| format!("{prefix}h.{layer}.{part}");
        let names = ["ln_1", "attn.c_attn", "attn.c_proj", "ln_2", "mlp.c_fc", "mlp.c_proj"].map(name);
        let (attention_norm, mlp_norm) = (self.norm(&names[0])?, self.norm(&names[3])?);
        let mut linear = |name: &str, n_in: usize, n_out: usize| {
            let weight = self.matrix(&[(&format!("{name}.weight"), n_out)], n_in, true)?;
            Ok::<_, Error>(Linear { weight, bias: Some(self.vector(&[(&format!("{name}.bias"), n_out)])?) })
        };
        let attention_in = linear(&names[1], c, 3 * c)?;
        let attention_out = linear(&names[2], c, c)?;
        let mlp_in = linear(&names[4], c, inner)?;
        let mlp_out = linear(&names[5], inner, c)?;
        Ok(Block { attention_norm, attention_in, attention_out, mlp_norm, mlp_in, mlp_up: None, mlp_out })
    }

    fn llama_block(&mut self, layer: usize) -> Result<Block<M::Tensor>> {
        let config = self.config;
        let (c, inner, biases) = (config.hidden_size, config.intermediate_size, config.biases);
        let (queries, keys) = (config.n_head * config.head_dim, config.n_kv_head * config.head_dim);
        let prefix = self.prefix;
        let name = |part: &str| format!("{prefix}layers.{layer}.{part}");
        let norms = ["input_layernorm", "post_attention_layernorm"].map(name);
        let [q, k, v, o, gate, up, down] = [
            "self_attn.q_proj",
            "self_attn.k_proj",
            "self_attn.v_proj",
            "self_attn.o_proj",
            "mlp.gate_proj",
            "mlp.up_proj",
            "mlp.down_proj",
        ]
        .map(name);
        let (attention_norm, mlp_norm) = (self.norm(&norms[0])?, self.norm(&norms[1])?);
        let mut linear = |names: &[(&String, usize)], n_in: usize, with_bias: bool| {
            let of = |end: &str| names.iter().map(|(name, n)| (format!("{name}.{end}"), *n)).collect::<Vec<_>>();
            let weight = self.matrix(&of("weight"), n_in, false)?;
            let bias = if with_bias { Some(self.vector(&of("bias"))?) } else { None };
            Ok::<_, Error>(Linear { weight, bias })
        };
        let attention_in = linear(&[(&q, queries), (&k, keys), (&v, keys)], c, biases.attention_in)?;
        let attention_out = linear(&[(&o, c)], queries, biases.attention_out)?;
        let mlp_in = linear(&[(&gate, inner)], c, biases.mlp)?;
        let mlp_up = Some(linear(&[(&up, inner)], c, biases.mlp)?);
        let mlp_out = linear(&[(&down, c)], inner, biases.mlp)?;
        Ok(Block { attention_norm, attention_in, attention_out, mlp_norm, mlp_in, mlp_up, mlp_out })
    }

    /// A matrix of `n_in` columns whose rows are those of all `names`, each with its number of rows. With
    /// `transpose`, the file has (in, out).
    fn matrix<N: AsRef<str>>(&mut self, names: &[(N, usize)], n_in: usize, transpose: bool) -> Result<M::Tensor> {
        for (name, rows) in names {
            self.weights.check(name.as_ref(), &if transpose { [n_in, *rows] } else { [*rows, n_in] })?;
        }
        let n_out = names.iter().map(|(_, rows)| rows).sum::<usize>();
        self.count(n_out * n_in, self.dtype);
        self.memory.tensor(&[n_out, n_in], self.dtype, &mut |mut slot| {
            for (name, rows) in names {
                let (part, rest) = slot.split_at(rows * n_in);
                match transpose {
                    true => self.weights.read_transposed(name.as_ref(), n_in, *rows, part)?,
                    false => self.weights.read(name.as_ref(), &[*rows, n_in], part)?,
                }
                slot = rest;
            }
            Ok(())
        })
    }

    fn vector<N: AsRef<str>>(&mut self, names: &[(N, usize)]) -> Result<M::Tensor> {
        for (name, len) in names {
            self.weights.check(name.as_ref(), &[*len])?;
        }
        let len = names.iter().map(|(_, len)| len).sum::<usize>();
        self.count(len, self.compute);
        self.memory.tensor(&[len], self.compute, &mut |mut slot| {
            for (name, len) in names {
                let (part, rest) = slot.split_at(*len);
                self.weights.read(name.as_ref(), &[*len], part)?;
                slot = rest;
            }
            Ok(())
        })
    }

    fn norm(&mut self, name: &str) -> Result<Norm<M::Tensor>> {
        let c = self.config.hidden_size;
        let scale = self.vector(&[(format!("{name}.weight"), c)])?;
        let shift = match self.config.norm {
            NormKind::Layer => Some(self.vector(&[(format!("{name}.bias"), c)])?),
            NormKind::Rms => None,
        };
        Ok(Norm { scale, shift })
    }

    fn count(&mut self, numbers: usize, dtype: Precision) {
        self.counts.parameters += numbers;
        self.counts.bytes += numbers * dtype.size_in_bytes();
    }
}

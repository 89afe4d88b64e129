//! Keys and values of a real model in few bits: what rounding changes, what they take, what it does to predictions.

use std::ops::Range;

use quantlab::error::Result;
use quantlab::measure::{CacheComparison, compare_caches};
use quantlab::model::{CacheFormat, DecoderConfig, Loaded, Operation, trace};
use quantlab::report::{LinePlot, Table};
use quantlab::source::ModelId;

use super::Along;
use crate::tables::percent;
use crate::{Claims, claim, held_out_samples};

/// Keys and values of every layer, for a text of the held-out corpus: their width, and (tokens, width) numbers each.
#[derive(Debug, Clone, PartialEq)]
pub struct KeysAndValues {
    /// Numbers of a token.
    pub width: usize,
    /// By layer.
    pub keys: Vec<Vec<f32>>,
    /// By layer.
    pub values: Vec<Vec<f32>>,
}

impl KeysAndValues {
    /// Of the first tokens of a text, at most `tokens`.
    ///
    /// # Errors
    /// As [`trace`].
    pub fn of(loaded: &Loaded, tokens: usize) -> Result<Self> {
        let ids = loaded.tokenizer.encode(held_out_samples(2, 2000)?[1])?;
        let ids = &ids[..ids.len().min(tokens)];
        let traced = trace(loaded, ids)?;
        let of = |operation| -> Vec<Vec<f32>> {
            traced.iter().filter(|traced| traced.operation == operation).map(|traced| traced.values.clone()).collect()
        };
        let (keys, values) = (of(Operation::Keys), of(Operation::Values));
        Ok(Self { width: keys.first().map_or(1, |keys| keys.len() / ids.len()), keys, values })
    }

    /// The root of the mean square of what `round_cache(numbers, width, along, bits)` changes, as a part of that of the
    /// numbers: the mean over layers.
    fn error(&self, all: &[Vec<f32>], along: Along, bits: u32, round_cache: &Round<'_>) -> f64 {
        let of = |numbers: &Vec<f32>| {
            let rounded = round_cache(numbers, self.width, along, bits);
            let squares = |x: &mut dyn Iterator<Item = f32>| x.map(|x| f64::from(x).powi(2)).sum::<f64>();
            let change = squares(&mut numbers.iter().zip(&rounded).map(|(a, b)| a - b));
            (change / squares(&mut numbers.iter().copied())).sqrt()
        };
        all.iter().map(of).sum::<f64>() / all.len() as f64
    }

    /// Of keys and of values: the error along tokens and along channels.
    pub fn errors(&self, bits: u32, round_cache: impl Fn(&[f32], usize, Along, u32) -> Vec<f32>) -> Vec<[f64; 2]> {
        let of =
            |all: &[Vec<f32>]| [Along::Tokens, Along::Channels].map(|along| self.error(all, along, bits, &round_cache));
        vec![of(&self.keys), of(&self.values)]
    }

    /// How large each channel is in the middle layer: the largest magnitude over all tokens.
    ///
    /// # Errors
    /// None in practice.
    pub fn plot(&self) -> Result<LinePlot> {
        let middle = self.keys.len() / 2;
        let largest = |numbers: &[f32]| -> Vec<(usize, f32)> {
            let of =
                |c: usize| (c, numbers.iter().skip(c).step_by(self.width).fold(0.0_f32, |most, x| most.max(x.abs())));
            (0..self.width).map(of).collect()
        };
        let of = |all: &[Vec<f32>]| all.get(middle).map(|numbers| largest(numbers)).unwrap_or_default();
        LinePlot::new(format!("Keys and values of layer {middle}"))
            .x("channel", "")
            .y("largest magnitude of all tokens", "")
            .series("keys", of(&self.keys))?
            .series("values", of(&self.values))
    }
}

type Round<'a> = dyn Fn(&[f32], usize, Along, u32) -> Vec<f32> + 'a;

/// The errors as [`KeysAndValues::errors`] has them, for several numbers of bits.
pub fn directions_table(errors: &[(u32, Vec<[f64; 2]>)]) -> Table {
    let rows: Vec<(u32, usize, [f64; 2])> = errors
        .iter()
        .flat_map(|(bits, of)| of.iter().enumerate().map(|(which, error)| (*bits, which, *error)))
        .collect();
    Table::new("What rounding changes in keys and values")
        .column("codes of", "bits", rows.iter().map(|row| row.0))
        .column("of", "", rows.iter().map(|row| ["keys", "values"][row.1]))
        .column("along tokens", "%", rows.iter().map(|row| 100.0 * row.2[0]))
        .column("along channels", "%", rows.iter().map(|row| 100.0 * row.2[1]))
        .digits("along tokens", 3)
        .digits("along channels", 3)
        .note("groups of 32; the root of the mean square, as a part of that of the numbers, mean over layers")
}

fn config_of(id: &str) -> Result<DecoderConfig> {
    DecoderConfig::read(&id.parse::<ModelId>()?.resolve()?.config)
}

fn llama_1b() -> Result<DecoderConfig> {
    config_of("random:llama-3.2-1b")
}

/// Formats of a cache, widest first, with the bits of codes where they are quantized.
const FORMATS: [(CacheFormat, Option<usize>); 4] = [
    (CacheFormat::Float32, None),
    (CacheFormat::Float16, None),
    (CacheFormat::Int8, Some(8)),
    (CacheFormat::Int4, Some(4)),
];

/// Keys and values at the 1B shape by the learner's `head_bytes(tokens, head_dim, bits)`, and how many sequences of so many
/// tokens fit into `gib`.
///
/// # Errors
/// None in practice.
pub fn cache_memory_table(tokens: usize, gib: f64, head_bytes: impl Fn(usize, usize, usize) -> usize) -> Result<Table> {
    let config = llama_1b()?;
    let heads = config.n_layer * config.n_kv_head;
    let bytes = |&(format, bits): &(CacheFormat, Option<usize>)| match bits {
        Some(bits) => heads * head_bytes(tokens, config.head_dim, bits),
        None => heads * format.bytes_of_head(tokens, config.head_dim) as usize,
    };
    let all: Vec<usize> = FORMATS.iter().map(bytes).collect();
    let room = gib * f64::from(1 << 30);
    Ok(Table::new(format!("Keys and values of {tokens} tokens at the shape of Llama 3.2 1B"))
        .column("format", "", FORMATS.iter().map(|(format, _)| format.to_string()))
        .column("a sequence", "MiB", all.iter().map(|bytes| *bytes as f64 / f64::from(1 << 20)))
        .digits("a sequence", 4)
        .column(
            "a number",
            "bits",
            all.iter().map(|bytes| 4.0 * *bytes as f64 / (heads * tokens * config.head_dim) as f64),
        )
        .digits("a number", 3)
        .column(format!("sequences in {gib} GiB"), "", all.iter().map(|bytes| (room / *bytes as f64) as usize)))
}

/// Whether the learner's formula says what the library allocates, for a model's own shape, and what the configuration of the
/// 1B shape says.
///
/// # Errors
/// What the model reports.
pub fn formula_agrees(loaded: &Loaded, head_bytes: impl Fn(usize, usize, usize) -> usize) -> Result<bool> {
    let (config, own) = (llama_1b()?, config_of(&loaded.model_id)?);
    for (format, bits) in [(CacheFormat::Int8, 8), (CacheFormat::Int4, 4)] {
        for tokens in [20, 65, 200, 500] {
            let allocated = loaded.model.new_cache_in(Some(format), 1, tokens)?.bytes();
            let of_1b = config.n_layer * config.n_kv_head * head_bytes(tokens, config.head_dim, bits);
            if allocated != own.n_layer * own.n_kv_head * head_bytes(tokens, own.head_dim, bits)
                || (config.cache_bytes(format, 1, tokens) - of_1b as f64).abs() > 0.5
            {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// How far predictions with a cache in float16, int8 and int4 are from those with one in float32, after so much text, over
/// `sequences` texts. Contexts beyond the model's are left out.
///
/// # Errors
/// As [`compare_caches`].
pub fn cache_quality(loaded: &Loaded, sequences: usize, contexts: &[Range<usize>]) -> Result<Vec<CacheComparison>> {
    let context_len = loaded.model.info().context_len;
    let contexts: Vec<Range<usize>> = contexts.iter().filter(|context| context.end <= context_len).cloned().collect();
    let tokens = contexts.iter().map(|context| context.end).max().unwrap_or(0);
    let texts = held_out_samples(sequences, 8 * tokens.max(1))?;
    let of = |text: &&str| Ok(loaded.tokenizer.encode(text)?.into_iter().take(tokens).collect());
    let ids: Vec<Vec<u32>> = texts.iter().map(of).collect::<Result<_>>()?;
    let others = FORMATS[1..].iter().map(|(format, _)| (loaded, *format)).collect::<Vec<_>>();
    compare_caches(loaded, &others, &ids, &contexts)
}

/// KL divergence by context, a series for each format.
///
/// # Errors
/// None in practice.
pub fn cache_quality_plot(found: &[CacheComparison]) -> Result<LinePlot> {
    let mut plot = LinePlot::new("What fewer bits of keys and values change")
        .x("tokens before the predicted one", "")
        .y("KL divergence from a cache in float32", "nats")
        .log_y();
    for (format, _) in FORMATS {
        let of_format = found.iter().filter(|row| row.format == format && row.kl_divergence.value > 0.0);
        let point = |row: &CacheComparison| (row.context.start.midpoint(row.context.end), row.kl_divergence.value);
        let points: Vec<_> = of_format.map(point).collect();
        if !points.is_empty() {
            plot = plot.series(format.to_string(), points)?;
        }
    }
    Ok(plot)
}

fn divergences(found: &[CacheComparison], format: CacheFormat) -> impl Iterator<Item = f64> {
    found.iter().filter(move |row| row.format == format).map(|row| row.kl_divergence.value)
}

/// KL divergence of int4, times that of int8, over all contexts.
pub fn bits_ratio(found: &[CacheComparison]) -> f64 {
    divergences(found, CacheFormat::Int4).sum::<f64>() / divergences(found, CacheFormat::Int8).sum::<f64>()
}

/// The KL divergence of a format after the longest context, in nats.
pub fn cache_divergence(found: &[CacheComparison], format: CacheFormat) -> Option<f64> {
    divergences(found, format).last()
}

/// What fewer bits cost in order, after each length of text.
pub fn cache_claims(found: &[CacheComparison]) -> Claims {
    let above = |more: CacheFormat, less: CacheFormat| {
        divergences(found, more).zip(divergences(found, less)).all(|(more, less)| more > less)
    };
    claim("After each length of text, 4 bits change more than 8.", above(CacheFormat::Int4, CacheFormat::Int8))
        .that("8 bits change more than float16.", above(CacheFormat::Int8, CacheFormat::Float16))
}

/// The same as a table, with intervals.
pub fn cache_quality_table(found: &[CacheComparison]) -> Table {
    Table::new("What fewer bits of keys and values change")
        .column("format", "", found.iter().map(|row| row.format.to_string()))
        .column(
            "tokens before",
            "",
            found.iter().map(|row| format!("{} to {}", row.context.start, row.context.end - 1)),
        )
        .column("KL divergence", "nats", found.iter().map(|row| row.kl_divergence))
        .column("same top token", "%", found.iter().map(|row| percent(row.same_top_token.into())))
        .note("from the same model with keys and values in float32; intervals as if positions were independent")
        .note("shares end at 0 and 100 %; where all positions are the same, they do not vary, and there is no interval")
}

//! Generates new text from a model and prompts.
//!
//! [`generate_tokens`] does the work, on token ids, as does [`Loaded::generate_tokens`] for a single prompt;
//! [`generate`], [`generate_batch`] and [`generate_streaming`] put the tokenizer around it, and [`Chat`] a conversation.
//!
//! Source: `generate` in transformers (`generation/utils.py`), for the names and meanings of options.

mod batch;
mod chat;
mod options;
mod sampling;
mod sequence;
mod speculative;
mod text;

use std::fmt;

use serde::Serialize;

use crate::error::Result;
use crate::model::Loaded;

pub(crate) use batch::padded;
pub use batch::{FinishReason, GeneratedTokens, generate_tokens};
pub use chat::{Chat, ChatTemplate, Message};
pub use options::{GenerateOptions, PaddingSide};
pub(crate) use sampling::Sampler;
pub(crate) use sequence::Sequence;
pub use speculative::{Draft, Speculative};
use text::StoppingText;
pub use text::TextStream;

/// Generated text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Generation {
    /// The text that it continues, as given.
    pub prompt: String,
    /// Tokens of the prompt that the model read.
    pub prompt_tokens: usize,
    /// Tokens of the prompt that were left out for lack of room; 0 without `truncation`.
    pub truncated_tokens: usize,
    /// The new tokens, including those that ended the text: the token that ends a text, or those of a stop
    /// string.
    pub tokens: Vec<u32>,
    /// The new tokens as text, up to the stop string if there was one.
    pub text: String,
    /// Why it ended.
    pub finish_reason: FinishReason,
    /// The seed that the tokens were drawn with; `None` if each was the most likely one.
    pub seed: Option<u64>,
}

/// Continues `prompt`, with the most likely token each time unless `options` say otherwise.
///
/// ```
/// use quantlab::generate::{GenerateOptions, generate};
/// use quantlab::model::{Device, load_model_and_tokenizer};
///
/// let loaded = load_model_and_tokenizer(&["embedded"], "float32", Device::Cpu)?;
/// let options = GenerateOptions { max_new_tokens: 8, ..GenerateOptions::default() };
/// println!("{}", generate(&loaded, "The capital of France is", &options)?.text);
///
/// let sampled = GenerateOptions { do_sample: true, temperature: 0.8, top_p: 0.95, seed: 7, ..options };
/// println!("{}", generate(&loaded, "The capital of France is", &sampled)?.text);
/// # Ok::<(), quantlab::error::Error>(())
/// ```
///
/// # Errors
/// Options that are not allowed (see [`GenerateOptions::check`]); an empty prompt, or one that leaves no room
/// for the new tokens in the model's context; keys and values that do not fit into memory, or a format that the engine cannot
/// keep them in; logits that are NaN.
pub fn generate(loaded: &Loaded, prompt: &str, options: &GenerateOptions) -> Result<Generation> {
    Ok(generate_batch(loaded, &[prompt], options)?.remove(0))
}

/// Continues several prompts at once. Each result depends on the prompt and the options alone and, if tokens
/// are drawn, on its place in the batch: the first prompt gives what [`generate`] gives. There are the exceptions that
/// [`CausalLm::forward`](crate::model::CausalLm::forward) names.
///
/// # Errors
/// No prompts; otherwise as [`generate`].
pub fn generate_batch(
    loaded: &Loaded,
    prompts: &[impl AsRef<str>],
    options: &GenerateOptions,
) -> Result<Vec<Generation>> {
    generate_streaming(loaded, prompts, options, |_, _| ())
}

/// As [`generate_batch`]; `on_text` sees each piece of text as soon as it is known, with the index of its
/// prompt. The pieces of a prompt add up to its [`text`](Generation::text): whole characters only, and no part
/// of a stop string.
///
/// ```
/// use quantlab::generate::{GenerateOptions, generate_streaming};
/// use quantlab::model::{Device, load_model_and_tokenizer};
///
/// let loaded = load_model_and_tokenizer(&["embedded"], "float32", Device::Cpu)?;
/// let options = GenerateOptions { stop_strings: vec![".".to_owned()], ..GenerateOptions::default() };
/// generate_streaming(&loaded, &["Once upon a time"], &options, |_, text| print!("{text}"))?;
/// # Ok::<(), quantlab::error::Error>(())
/// ```
///
/// # Errors
/// As [`generate_batch`].
pub fn generate_streaming(
    loaded: &Loaded,
    prompts: &[impl AsRef<str>],
    options: &GenerateOptions,
    mut on_text: impl FnMut(usize, &str),
) -> Result<Vec<Generation>> {
    let ids = prompts.iter().map(|prompt| loaded.tokenizer.encode(prompt.as_ref())).collect::<Result<Vec<_>>>()?;
    let new_text =
        |prompt: &Vec<u32>| Ok(StoppingText::new(TextStream::after(&loaded.tokenizer, prompt)?, &options.stop_strings));
    let mut texts = ids.iter().map(new_text).collect::<Result<Vec<_>>>()?;
    let sequences = batch::continue_batch(&*loaded.model, &ids, options, &mut |row, token| {
        texts[row].push(token, &mut |text| on_text(row, text))
    })?;
    let mut generations = Vec::with_capacity(prompts.len());
    for (row, (sequence, text)) in sequences.into_iter().zip(texts).enumerate() {
        let GeneratedTokens { prompt_tokens, tokens, finish_reason } = sequence;
        generations.push(Generation {
            prompt: prompts[row].as_ref().to_owned(),
            prompt_tokens,
            truncated_tokens: ids[row].len() - prompt_tokens,
            tokens,
            text: text.finish(&mut |text| on_text(row, text))?,
            finish_reason,
            seed: options.do_sample.then_some(options.seed),
        });
    }
    Ok(generations)
}

impl fmt::Display for FinishReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

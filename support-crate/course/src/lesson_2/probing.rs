//! Prompts at the edge, timed.

use quantlab::error::Result;
use quantlab::generate::{GenerateOptions, generate};
use quantlab::measure::{Clock, prompt_of_tokens};
use quantlab::model::Loaded;

use super::timing::{runs_in_turn, time_batch};
use super::{EdgePrompt, EdgeRun};

/// A sentence to make long prompts of.
pub(super) const BASE: &str = "The quick brown fox jumps over the lazy dog. ";

/// Prompts that are very short, very long (three quarters of the context that the new tokens leave), of several lines, and
/// repetitive.
///
/// # Errors
/// A text that cannot be encoded.
pub fn edge_prompts(loaded: &Loaded, max_new_tokens: usize) -> Result<Vec<EdgePrompt>> {
    let room = loaded.model.info().context_len.saturating_sub(max_new_tokens);
    let prompts = [
        ("very short", "A".to_owned()),
        ("very long", prompt_of_tokens(loaded, BASE, (room * 3 / 4).max(1))?.text),
        ("multi-line", "Shopping list:\n- milk\n- bread\n\n- a fox\n".to_owned()),
        ("repetitive", "ha ".repeat(30)),
    ];
    Ok(prompts.into_iter().map(|(name, text)| EdgePrompt { name: name.to_owned(), text }).collect())
}

impl EdgeRun {
    /// Times each prompt alone, in turn, and lets the model continue it.
    ///
    /// # Errors
    /// As [`time_batch`]; no repeats.
    pub fn in_turn(
        clock: &dyn Clock,
        loaded: &Loaded,
        prompts: &[EdgePrompt],
        options: &GenerateOptions,
        repeats: usize,
    ) -> Result<Vec<Self>> {
        let runs = runs_in_turn(repeats, prompts, |prompt| time_batch(clock, loaded, &[&prompt.text], options))?;
        let row = |(prompt, runs): (&EdgePrompt, _)| {
            let prompt_tokens = loaded.tokenizer.encode(&prompt.text)?.len();
            let text = generate(loaded, &prompt.text, options)?.text;
            Ok(Self { name: prompt.name.clone(), prompt_tokens, runs, text })
        };
        prompts.iter().zip(runs).map(row).collect()
    }
}

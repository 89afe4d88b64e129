//! Prompts at the edge, timed, and what stands out in the texts that follow.

use quantlab::error::Result;
use quantlab::generate::{GenerateOptions, generate};
use quantlab::measure::Clock;
use quantlab::model::Loaded;

use super::timing::{runs_in_turn, time_batch};
use super::{EdgePrompt, EdgeRun};

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

/// What a text ends with, if it repeats that through to its end.
pub(super) fn repeated(loaded: &Loaded, text: &str) -> Result<Option<String>> {
    let tokens = loaded.tokenizer.encode(text)?;
    let Some((start, period)) = repetition(&tokens) else { return Ok(None) };
    Ok(Some(loaded.tokenizer.decode(&tokens[start..start + period])?))
}

/// Where a sequence starts to repeat a few tokens through to its end, at least three times, and how many they are.
fn repetition(tokens: &[u32]) -> Option<(usize, usize)> {
    let n = tokens.len();
    (1..=n / 3).find_map(|period| {
        let start = (0..n - period).rev().find(|&at| tokens[at] != tokens[at + period]).map_or(0, |at| at + 1);
        (n - start >= 3 * period).then_some((start, period))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_that_repeats_itself_is_found() {
        assert_eq!(repetition(&[9, 1, 2, 1, 2, 1, 2]), Some((1, 2)));
        assert_eq!(repetition(&[7, 7, 7]), Some((0, 1)));
        assert_eq!(repetition(&[1, 2, 3, 1, 2, 3, 1, 2]), None);
        assert_eq!(repetition(&[]), None);
    }
}

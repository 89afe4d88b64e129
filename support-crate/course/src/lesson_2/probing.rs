//! Prompts at the edge, timed, and what stands out.

use quantlab::error::Result;
use quantlab::generate::{GenerateOptions, generate};
use quantlab::measure::{Clock, Statistics};
use quantlab::model::Loaded;

use super::timing::{runs_in_turn, time_batch};
use super::{EdgePrompt, EdgeRun};

/// How far from the median of all rows, as a fraction of it, is worth a note.
const STANDS_OUT: f64 = 0.2;

/// Times each prompt alone, in turn, and notes what stands out: in throughput, where a row's interval lies apart from
/// the median of all rows by more than a fifth of it, and in the text that the model makes.
///
/// # Errors
/// As [`time_batch`]; no prompts, or no repeats.
pub fn probe_edge_prompts(
    clock: &dyn Clock,
    loaded: &Loaded,
    prompts: &[EdgePrompt],
    options: &GenerateOptions,
    repeats: usize,
) -> Result<Vec<EdgeRun>> {
    let runs = runs_in_turn(repeats, prompts, |prompt| time_batch(clock, loaded, &[&prompt.text], options))?;
    let medians: Vec<f64> = runs.iter().map(|runs| runs.tokens_per_s.median).collect();
    let usual = Statistics::of(&medians)?.median;
    prompts
        .iter()
        .zip(runs)
        .map(|(prompt, runs)| {
            let options = GenerateOptions { stop_at_eos: false, ..options.clone() };
            let generation = generate(loaded, &prompt.text, &options)?;
            let prompt_tokens = loaded.tokenizer.encode(&prompt.text)?;
            Ok(EdgeRun {
                name: prompt.name.clone(),
                prompt: prompt.text.clone(),
                prompt_tokens: prompt_tokens.len(),
                speed_note: speed_note(&runs.tokens_per_s, usual, prompt_tokens.len()),
                text_note: text_note(loaded, &prompt_tokens, &generation.tokens)?,
                text: generation.text,
                runs,
            })
        })
        .collect()
}

fn speed_note(throughput: &Statistics, usual: f64, prompt_tokens: usize) -> String {
    let times = throughput.median / usual;
    if throughput.high < (1.0 - STANDS_OUT) * usual {
        format!("{times:.2} times the usual throughput: the prefill of {prompt_tokens} tokens takes its time")
    } else if throughput.low > (1.0 + STANDS_OUT) * usual {
        format!("{times:.2} times the usual throughput: next to no prefill")
    } else {
        String::new()
    }
}

/// What stands out in the new tokens: an ending that repeats itself, or how many of them are not in the prompt.
fn text_note(loaded: &Loaded, prompt: &[u32], new: &[u32]) -> Result<String> {
    if let Some((start, period)) = repetition(new) {
        let words = loaded.tokenizer.decode(&new[start..start + period])?;
        return Ok(format!("repeats {:?} from its token {} on", words.trim(), start + 1));
    }
    let known = new.iter().filter(|&token| prompt.contains(token)).count();
    Ok(match (known, new.len()) {
        (known, all) if known == all => "says nothing that is not in the prompt".to_owned(),
        (known, all) => format!("{} of {all} new tokens are not in the prompt", all - known),
    })
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

    #[test]
    fn only_what_stands_apart_is_noted() {
        let of = |values: [f64; 3]| Statistics::of(&values).unwrap();
        assert!(speed_note(&of([40.0, 45.0, 50.0]), 100.0, 300).contains("0.45 times"));
        assert!(speed_note(&of([150.0, 160.0, 155.0]), 100.0, 1).contains("next to no prefill"));
        assert_eq!(speed_note(&of([70.0, 75.0, 85.0]), 100.0, 80), "");
    }
}

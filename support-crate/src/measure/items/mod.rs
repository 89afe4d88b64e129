//! Multiple choice: how often a model finds the right one of several continuations the most likely.

mod scores;

use serde::{Deserialize, Serialize};

pub(crate) use scores::right;
pub use scores::{ItemComparison, ItemScore, ItemScores};

use super::RunInfo;
use super::nll::windows_nll;
use super::scoring::score_in_batches;
use super::windows::Window;
use crate::error::{Context, Error, Result};
use crate::model::{Loaded, Tokenizer};

/// Choices that the model reads at once, as far as their logits fit: they are short.
const BATCH: usize = 32;

/// A text with several continuations, one of which is right.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Item {
    /// What it is about, such as `geography`.
    pub kind: String,
    /// What the model reads first, such as `The capital of Italy is`, without a space at the end.
    pub prompt: String,
    /// The continuations, at least two, each with the space or line break that it begins with: ` Rome`.
    pub choices: Vec<String>,
    /// The index of the right choice.
    pub answer: usize,
}

/// 360 items with four choices each, 36 of each of ten kinds: geography, science, everyday physics, words and grammar,
/// arithmetic, reading, ends of sentences and of stories, programming, idioms.
///
/// They were written for this course, in English, easy ones and hard ones of each kind, and have its licence; some of the
/// stories retell fables. The right choices are spread evenly over the positions, and hardly more often than by chance is
/// the longest or the shortest choice the right one.
///
/// # Errors
/// None in practice: the list is part of the library, and a test reads it.
pub fn items() -> Result<Vec<Item>> {
    parse(include_bytes!("../../../embedded/items.json")).context(|| "embedded/items.json")
}

fn parse(json: &[u8]) -> Result<Vec<Item>> {
    let items: Vec<Item> = serde_json::from_slice(json)?;
    items.iter().enumerate().try_for_each(|(index, item)| item.check().context(|| item.name(index)))?;
    Ok(items)
}

/// How likely a model finds each choice of each item: the sum of ln p over the tokens of the choice, after the prompt.
/// Nothing is generated and no instructions are followed, so any language model can be asked, however small.
///
/// The choice that counts as the model's is the most likely one per byte, since a longer choice is less likely merely for
/// being longer. The length leaves out the space before the choice.
///
/// ```
/// use quantlab::measure::{items, score_items};
/// use quantlab::model::{LoadOptions, load_model};
/// use quantlab::quant::QuantizationConfig;
///
/// let items = &items()?[..8];
/// let base = score_items(&load_model(&["embedded"], &LoadOptions::default())?, items)?;
/// let quantization = Some(QuantizationConfig::nf4());
/// let nf4 = score_items(&load_model(&["embedded"], &LoadOptions { quantization, ..LoadOptions::default() })?, items)?;
/// println!("{} % of the items are right", nf4.accuracy() * 100.0);
///
/// let change = nf4.against(&base)?;
/// println!("{} items lost, {} won, p = {:.2}", change.lost, change.won, change.p);
/// # Ok::<(), quantlab::error::Error>(())
/// ```
///
/// Source: Gao et al., "The Language Model Evaluation Harness" (lm-evaluation-harness), whose `acc_norm` divides by
/// characters where this divides by bytes.
///
/// # Errors
/// Fewer than two items; one without a prompt, with fewer than two choices, an empty choice or the same one twice, or whose
/// answer is none of its choices; one that is longer than the model's context; a tokenizer that merges the end of the prompt
/// with the beginning of a choice; a model that predicts NaN, or gives a token of a choice a probability of 0.
pub fn score_items(loaded: &Loaded, items: &[Item]) -> Result<ItemScores> {
    if items.len() < 2 {
        return Err(Error::input(format!("{} items were given, and a share has no spread", items.len()))
            .hint("give at least two, for example those of `items()`"));
    }
    let context_len = loaded.model.info().context_len;
    let mut texts: Vec<(usize, Vec<u32>)> = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let encoded = item.check().and_then(|()| item.encode(&loaded.tokenizer, context_len));
        texts.extend(encoded.context(|| item.name(index))?);
    }
    let windows: Vec<Window<'_>> = texts.iter().map(|(prompt, ids)| Window { ids, unscored: *prompt }).collect();
    let scored =
        score_in_batches("items", &[loaded], &windows, BATCH, |tokens, windows| windows_nll(loaded, tokens, windows))?;
    let mut each = scored.windows.iter().map(|nll| -nll);
    let mut score = |item: &Item| ItemScore {
        item: item.clone(),
        log_likelihoods: each.by_ref().take(item.choices.len()).collect(),
    };
    Ok(ItemScores {
        scores: items.iter().map(&mut score).collect(),
        run: RunInfo { threads_granted: scored.threads_granted, ..RunInfo::of(loaded) },
    })
}

impl Item {
    /// How messages name it.
    fn name(&self, index: usize) -> String {
        format!("item {index}, {:?}", self.prompt)
    }

    fn check(&self) -> Result<()> {
        let Self { prompt, choices, answer, .. } = self;
        let wrong = |message: String| Err(Error::input(message));
        if prompt.is_empty() {
            return wrong("the prompt is empty, and nothing predicts the first token".to_owned());
        }
        if choices.len() < 2 {
            return wrong(format!("choices are missing: there must be at least two, and there are {}", choices.len()));
        }
        if *answer >= choices.len() {
            return wrong(format!("the answer is {answer}, and the last of the choices is {}", choices.len() - 1));
        }
        for (index, choice) in choices.iter().enumerate() {
            if choice.trim().is_empty() {
                return wrong(format!("choice {index} is empty"));
            }
            if let Some(first) = choices[..index].iter().position(|other| other == choice) {
                return wrong(format!("choices {first} and {index} are the same, {choice:?}"));
            }
        }
        Ok(())
    }

    /// The ids of the prompt with each choice, and how many of them are the prompt's.
    fn encode(&self, tokenizer: &Tokenizer, context_len: usize) -> Result<Vec<(usize, Vec<u32>)>> {
        let prompt = tokenizer.encode(&self.prompt)?;
        let with_choice = |choice: &String| {
            let ids = tokenizer.encode(&format!("{}{choice}", self.prompt))?;
            if prompt.is_empty() || ids.len() <= prompt.len() || !ids.starts_with(&prompt) {
                return Err(Error::input(format!("the tokenizer merges the end of the prompt with {choice:?}"))
                    .hint("end the prompt with a whole word, and begin each choice with the space after it"));
            }
            if ids.len() > context_len {
                let len = ids.len();
                return Err(Error::input(format!(
                    "{len} tokens with {choice:?}, and the model's context is {context_len}"
                ))
                .hint("shorten the prompt, or take a model with a longer context"));
            }
            Ok((prompt.len(), ids))
        };
        self.choices.iter().map(with_choice).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// How often the choice of this length (of all the item's lengths) is the right one; ties are shared.
    fn right_by_length(items: &[&Item], wanted: fn(&[usize]) -> Option<usize>) -> f64 {
        let right = |item: &&Item| {
            let lengths: Vec<usize> = item.choices.iter().map(String::len).collect();
            let wanted = wanted(&lengths).unwrap();
            let ties = lengths.iter().filter(|&&length| length == wanted).count();
            if lengths[item.answer] == wanted { 1.0 / ties as f64 } else { 0.0 }
        };
        items.iter().map(right).sum::<f64>() / items.len() as f64
    }

    #[test]
    fn neither_position_nor_length_gives_the_answers_away() {
        let items = items().unwrap();
        let mut kinds: BTreeMap<&str, Vec<&Item>> = BTreeMap::new();
        for item in &items {
            kinds.entry(&item.kind).or_default().push(item);
        }
        assert_eq!(kinds.values().map(Vec::len).collect::<Vec<_>>(), [36; 10]);
        for (kind, of_kind) in &kinds {
            for position in 0..4 {
                assert_eq!(of_kind.iter().filter(|item| item.answer == position).count(), 9, "{kind}, {position}");
            }
        }
        // By chance 0.25, with a standard error of 0.07 over a kind and of 0.02 over all.
        let all: Vec<&Item> = items.iter().collect();
        for (kind, items, limit) in kinds.iter().map(|(kind, of)| (*kind, of, 0.37)).chain([("all", &all, 0.29)]) {
            let shares = [
                right_by_length(items, |lengths| lengths.iter().max().copied()),
                right_by_length(items, |lengths| lengths.iter().min().copied()),
            ];
            assert!(shares.iter().all(|&share| share < limit), "{kind}: {shares:?}");
        }
    }

    #[test]
    fn items_differ_and_are_written_alike() {
        let items = items().unwrap();
        for (index, item) in items.iter().enumerate() {
            let name = item.name(index);
            assert!(items[..index].iter().all(|other| other.prompt != item.prompt), "{name}");
            assert!(item.choices.len() == 4 && item.prompt.trim() == item.prompt, "{name}");
            let is_spaced = |choice: &String| choice.strip_prefix(' ').is_some_and(|word| word.trim() == word);
            assert!(item.choices.iter().all(is_spaced), "{name}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_list_is_named() {
        let message = |json: &str| parse(json.as_bytes()).unwrap_err().to_string();
        let item = |prompt: &str, choices: &str, answer: i32| {
            message(&format!(r#"[{{"kind": "k", "prompt": "{prompt}", "choices": [{choices}], "answer": {answer}}}]"#))
        };
        for (found, expected) in [
            (message("[{]"), "line 1"),
            (message(r#"[{"kind": "k", "prompt": "P", "choices": [" a", " b"]}]"#), "missing field `answer`"),
            (message(r#"[{"kind": "k", "prompt": "P", "choices": [" a"], "answer": 0, "key": 1}]"#), "`key`"),
            (item("P", r#"" a", " b""#, -1), "invalid value"),
            (item("P", r#"" a""#, 0), r#"item 0, "P": choices are missing"#),
            (item("P", r#"" a", " b""#, 2), "the answer is 2, and the last of the choices is 1"),
            (item("P", r#"" a", " ""#, 0), "choice 1 is empty"),
            (item("P", r#"" a", " b", " a""#, 0), r#"choices 0 and 2 are the same, " a""#),
            (item("", r#"" a", " b""#, 0), "the prompt is empty"),
        ] {
            assert!(found.contains(expected), "{found}\n{expected}");
        }
    }
}

//! `edge_prompts`: prompts that are not like the others.

use quantlab::error::Result;
use quantlab::model::{Loaded, Tokenizer};

use super::EdgePrompt;
use crate::failures::must_succeed;
use crate::probe::{Costs, Machine};
use crate::{Complaint, Point, Score, Verdict, ask};

const HINTS: [&str; 3] = [
    "What is the longest prompt that still leaves room for the new tokens, and where does a model say how long its \
     context is?",
    "`loaded.model.info().context_len.saturating_sub(max_new_tokens)` is the room that a prompt has. \
     `prompt_of_tokens(loaded, base, n)?` gives at least n tokens, so ask for less than the room: three quarters of \
     it, say.",
    "`EdgePrompt { name: \"very long\".to_owned(), text: long.text }`, and the other three in the same way: a word, a \
     list with `\\n` between its lines, and `\"ha \".repeat(30)`.",
];

/// The names of the four kinds.
const KINDS: [&str; 4] = ["very short", "very long", "multi-line", "repetitive"];

/// Context lengths and numbers of new tokens, some of which take up most of the context; at least 100 tokens remain.
const CALLS: [(usize, usize); 8] =
    [(1024, 6), (160, 24), (512, 300), (124, 24), (228, 128), (2600, 100), (2048, 1942), (130, 30)];

type Answer<'a> = dyn Fn(&Loaded, usize) -> Result<Vec<EdgePrompt>> + 'a;

/// Checks `edge_prompts(loaded, max_new_tokens)`.
pub fn check_edge_prompts(yours: impl Fn(&Loaded, usize) -> Result<Vec<EdgePrompt>>) -> Score {
    let trials = CALLS.iter().map(|&(context_len, new_tokens)| Trial::run(&yours, context_len, new_tokens));
    let trials = trials.collect::<Result<Vec<_>, _>>();
    let points: [Point<Trial>; 5] = [
        ("all four kinds are there, each once, by name", Trial::has_kinds),
        ("the very short prompt is a word", Trial::is_short),
        ("the very long prompt fills most of the room", Trial::is_long),
        ("one prompt has several lines, one repeats itself", Trial::has_lines_and_repeats),
        ("every prompt leaves room for the new tokens, however long the context is", Trial::fits),
    ];
    Score::new("edge_prompts", HINTS).each(&trials, &points).about(
        &trials,
        "new tokens that leave no room are an error",
        |_| refuses_no_room(&yours),
    )
}

/// A context that the new tokens fill, or that is too short even for them.
fn refuses_no_room(yours: &Answer<'_>) -> Verdict {
    for (context_len, new_tokens) in [(64, 64), (64, 80), (1024, 1024), (512, 100_000), (1, 2)] {
        let machine = Machine::new(Costs::default());
        let loaded = machine.loaded(|model| model.with_info(|info| info.context_len = context_len))?;
        match ask(|| yours(&loaded, new_tokens)) {
            Err(Complaint::Failed(_)) => {}
            Ok(_) => {
                return wrong!(
                    "with a context of {context_len} tokens and {new_tokens} new ones there is no room for a prompt, but you \
                     returned some: return an `Err`"
                );
            }
            Err(Complaint::Panicked(message)) => {
                return wrong!(
                    "with a context of {context_len} tokens and {new_tokens} new ones your function panics \
                     ({message}): a `usize` cannot go below 0; `saturating_sub` stops there"
                );
            }
            Err(complaint) => return Err(complaint),
        }
    }
    Ok(())
}

struct Trial {
    context_len: usize,
    new_tokens: usize,
    prompts: Vec<EdgePrompt>,
    tokenizer: Tokenizer,
}

impl Trial {
    fn run(yours: &Answer<'_>, context_len: usize, new_tokens: usize) -> Result<Self, Complaint> {
        let machine = Machine::new(Costs::default());
        let loaded = machine.loaded(|model| model.with_info(|info| info.context_len = context_len))?;
        let prompts = must_succeed(ask(|| yours(&loaded, new_tokens)), |message| {
            format!(
                "with a context of {context_len} tokens and {new_tokens} new ones your function fails ({message}): \
                 take the length of the long prompt from `loaded.model.info().context_len` and `max_new_tokens`"
            )
        })?;
        Ok(Self { context_len, new_tokens, prompts, tokenizer: machine.tokenizer()? })
    }

    fn room(&self) -> usize {
        self.context_len - self.new_tokens
    }

    fn tokens(&self, prompt: &EdgePrompt) -> Result<Vec<u32>, Complaint> {
        Ok(self.tokenizer.encode(&prompt.text)?)
    }

    fn named(&self, name: &str) -> Result<&EdgePrompt, Complaint> {
        let mut found = self.prompts.iter().filter(|prompt| prompt.name == name);
        match (found.next(), found.next()) {
            (Some(prompt), None) => Ok(prompt),
            (Some(_), Some(_)) => wrong!("two prompts are named {name:?}"),
            (None, _) => {
                let names: Vec<&str> = self.prompts.iter().map(|prompt| prompt.name.as_str()).collect();
                wrong!("no prompt is named {name:?}; yours are {names:?}")
            }
        }
    }

    fn has_kinds(&self) -> Verdict {
        KINDS.into_iter().try_for_each(|name| self.named(name).map(|_| ()))?;
        let empty = self.prompts.iter().find(|prompt| prompt.text.is_empty());
        empty.map_or(Ok(()), |prompt| wrong!("the {} prompt is empty: there is nothing to continue from", prompt.name))
    }

    fn is_short(&self) -> Verdict {
        let prompt = self.named(KINDS[0])?;
        // A long word can be many tokens.
        let (words, tokens) = (prompt.text.split_whitespace().count(), self.tokens(prompt)?.len());
        let is_word = words == 1 && tokens <= 12 && prompt.text.contains(char::is_alphanumeric);
        Complaint::unless(is_word, || {
            format!("the very short prompt has {words} words in {tokens} tokens; it should be one word")
        })
    }

    fn is_long(&self) -> Verdict {
        let (tokens, room) = (self.tokens(self.named(KINDS[1])?)?.len(), self.room());
        Complaint::unless(2 * tokens >= room, || {
            format!(
                "a context of {} tokens leaves room for {room} besides {} new ones; the very long prompt has {tokens}, \
                 which is less than half of it",
                self.context_len, self.new_tokens
            )
        })
    }

    fn has_lines_and_repeats(&self) -> Verdict {
        let lines = self.named(KINDS[2])?;
        Complaint::unless(lines.text.trim().contains('\n'), || {
            let raw = if lines.text.contains("\\n") { " (in a raw string, `\\n` is a backslash and an n)" } else { "" };
            format!("the multi-line prompt has no line break inside{raw}")
        })?;
        let text = &self.named(KINDS[3])?.text;
        Complaint::unless(repeats_ten_times(text), || {
            let words = text.split_whitespace().count();
            format!(
                "the repetitive prompt has {words} words, but not the same few ten times or more: repeat them more often"
            )
        })
    }

    fn fits(&self) -> Verdict {
        self.prompts.iter().try_for_each(|prompt| {
            let (tokens, room) = (self.tokens(prompt)?.len(), self.room());
            Complaint::unless(tokens <= room, || {
                format!(
                    "a context of {} tokens leaves room for {room} besides {} new ones, but the {} prompt has {tokens}",
                    self.context_len, self.new_tokens, prompt.name
                )
            })
        })
    }
}

/// Whether a text repeats itself ten times, or has so few different words that each comes ten times.
fn repeats_ten_times(text: &str) -> bool {
    let letters: Vec<char> = text.trim().to_lowercase().chars().collect();
    // Where the text repeats itself after `period` letters: ten times over, less what stands between two repetitions.
    let repeats = |period: usize| {
        let mut same = letters.iter().zip(&letters[period..]).map(|(a, b)| a == b).collect::<Vec<_>>();
        same.push(false);
        let longest = same.split(|same| !same).map(<[bool]>::len).max().unwrap_or(0);
        longest > 8 * period
    };
    let words: Vec<String> =
        text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_lowercase).collect();
    let mut different = words.clone();
    different.sort_unstable();
    different.dedup();
    (1..=letters.len() / 9).any(repeats) || !words.is_empty() && words.len() >= 10 * different.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_times_is_enough_and_five_is_not() {
        for (unit, between) in [("ha", " "), ("ha", ""), ("the cat sat", ", "), ("no", "\n"), ("x", " - ")] {
            let times = |n: usize| vec![unit; n].join(between);
            assert!(repeats_ten_times(&times(10)) && !repeats_ten_times(&times(5)), "{unit:?} {between:?}");
        }
        assert!(repeats_ten_times(&"Yes no. no, yes! ".repeat(5)) && !repeats_ten_times(&"ding dong ".repeat(9)));
        assert!(!repeats_ten_times(
            "In the evening the cat sat at the window, and when the moon rose it began to sing."
        ));
        assert!(!repeats_ten_times(""));
    }
}

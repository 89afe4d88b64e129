//! `generate_text_and_time`: one generation, its text and its time.

use quantlab::error::Result;
use quantlab::measure::Clock;
use quantlab::model::{Loaded, Tokenizer};

use crate::cases::LONG_PROMPT;
use crate::evidence::is_whole_prompt;
use crate::failures::{error_of, passes_failures_on};
use crate::probe::{Costs, Event, Machine, ProbeModel, Timed, one_of};
use crate::{Complaint, Score, Verdict, ask};

const PROMPT: &str = "Once upon a time there lived a fisher";
const NEW_TOKENS: usize = 8;
/// Where one of the models would like to end its text.
const ENDS_AFTER: usize = NEW_TOKENS / 2;

const OTHER_PROMPT: &str = "Sam";
/// Its first token, which ends a text, has no text of its own.
const SPECIAL_PROMPT: &str = "<|endoftext|>Once upon a time";
/// What the model says after the other prompt: some of its characters are made of several tokens.
const SAYING: &str = " na\u{ef}ve caf\u{e9} \u{2014} \u{20ac}";

const HINTS: [&str; 3] = [
    "What do you want to time, and which parts of your function do not belong to it?",
    "Text to ids; the stopwatch around generating, and around nothing else; ids to text.",
    "`let ids = loaded.tokenizer.encode(prompt)?;`, `let (generated, latency) = stopwatch(clock, &*loaded.model, || \
     loaded.generate_tokens(&ids, &options))?;` with `stop_at_eos: false`, and \
     `loaded.tokenizer.decode(&generated.tokens)?`",
];

type Answer<'a> = dyn Fn(&dyn Clock, &Loaded, &str, usize) -> Result<(String, f64)> + 'a;

/// Checks `generate_text_and_time(clock, loaded, prompt, max_new_tokens)`: the new text and seconds.
pub fn check_generate_text_and_time(yours: fn(&dyn Clock, &Loaded, &str, usize) -> Result<(String, f64)>) -> Score {
    // One that would like to end its text in the middle, and one that says another token each time.
    let ending = Trial::of_ending(&yours);
    let talking = [
        (OTHER_PROMPT, SAYING.to_owned()),
        (LONG_PROMPT, SAYING.repeat(9)),
        (OTHER_PROMPT, "!".to_owned()),
        (SPECIAL_PROMPT, SAYING.repeat(2)),
    ]
    .into_iter()
    .map(|(prompt, saying)| Trial::of_talking(&yours, prompt, &saying))
    .collect::<Result<Vec<_>, _>>();
    Score::new("generate_text_and_time", HINTS)
        .about(&ending, "the clock that was passed in is read before and after", |trial| trial.timed().map(drop))
        .about(&ending, "the tokenizer stays out of the timed part", |trial| trial.timed()?.leaves_text_outside())
        .about(&ending, "the function waits for the device before the clock starts", |trial| {
            trial.timed()?.waits_before()
        })
        .about(&ending, "the function waits for the device before the clock stops", |trial| {
            trial.timed()?.waits_after()
        })
        .about(&ending, "exactly max_new_tokens tokens are generated, once", |trial| {
            trial.generates_all()?;
            talking.as_ref().map_err(Complaint::clone)?.iter().try_for_each(Trial::generates_all)
        })
        .about(&ending, "the latency is the time between the two readings, in seconds", Trial::latency_fits)
        .about(&talking, "the text is that of the new tokens, without the prompt", |trials| {
            trials.iter().try_for_each(Trial::text_is_new)
        })
        .about(&ending, "an error is passed on", |trial| hands_on_errors(&yours, trial))
}

/// One call of the answer, and what happened on the machine meanwhile.
struct Trial {
    prompt: &'static str,
    /// The prompt's tokens.
    ids: Vec<u32>,
    new_tokens: usize,
    text: String,
    latency_s: f64,
    events: Vec<Event>,
    /// Some of the calls of the model, each of which can fail.
    some_calls: Vec<usize>,
    /// What the model read first.
    read: Vec<u32>,
    /// After how many new tokens the model wants to end its text.
    ends_after: Option<usize>,
    expected_text: String,
}

const COSTS: Costs = Costs { is_asynchronous: true, encode: 1e4, decode: 1e5, ..Costs::PLAIN };

fn tokenizer() -> Result<Tokenizer> {
    Machine::new(COSTS).tokenizer()
}

/// A model that would like to end its text in the middle.
fn ending(machine: &Machine) -> Result<Loaded> {
    let prompt_tokens = tokenizer()?.encode(PROMPT)?.len();
    machine.loaded(|model| model.ending_at(prompt_tokens + ENDS_AFTER))
}

impl Trial {
    fn of_ending(yours: &Answer<'_>) -> Result<Self, Complaint> {
        let machine = Machine::new(COSTS);
        let trial = Self::run(yours, &machine, &ending(&machine)?, PROMPT, NEW_TOKENS)?;
        Ok(Self { ends_after: Some(ENDS_AFTER), ..trial })
    }

    fn of_talking(yours: &Answer<'_>, prompt: &'static str, saying: &str) -> Result<Self, Complaint> {
        let (machine, tokenizer) = (Machine::new(COSTS), tokenizer()?);
        let (prompt_tokens, said) = (tokenizer.encode(prompt)?.len(), tokenizer.encode(saying)?);
        let (new_tokens, expected_text) = (said.len(), tokenizer.decode(&said)?);
        let vocab_size = tokenizer.vocab_size();
        let says = move |_, position: usize| {
            let place = (position + 1).saturating_sub(prompt_tokens) % new_tokens;
            one_of(said[place], vocab_size)
        };
        let loaded = machine.loaded(|model: ProbeModel| model.saying(says))?;
        Ok(Self { expected_text, ..Self::run(yours, &machine, &loaded, prompt, new_tokens)? })
    }

    fn run(
        yours: &Answer<'_>,
        machine: &Machine,
        loaded: &Loaded,
        prompt: &'static str,
        new_tokens: usize,
    ) -> Result<Self, Complaint> {
        let (text, latency_s) = ask(|| yours(&machine.clock(), loaded, prompt, new_tokens))?;
        Ok(Self {
            prompt,
            ids: tokenizer()?.encode(prompt)?,
            new_tokens,
            text,
            latency_s,
            events: machine.events(),
            some_calls: machine.some_calls().collect(),
            read: machine.passes().into_iter().next().map(|pass| pass.ids).unwrap_or_default(),
            ends_after: None,
            expected_text: String::new(),
        })
    }

    fn timed(&self) -> Result<Timed<'_>, Complaint> {
        Timed::lasting(&self.events, self.latency_s)
    }

    fn generates_all(&self) -> Verdict {
        let prompt = self.ids.len();
        let reads =
            |event: &&Event| matches!(**event, Event::Forward { past_len: 0, seq_len, .. } if seq_len == prompt);
        let prompts_read = self.events.iter().filter(reads).count();
        if prompts_read > 1 {
            return wrong!("the prompt was read {prompts_read} times: generate once; warming up is left to the caller");
        }
        if !self.read.is_empty() {
            is_whole_prompt(&self.read, &self.ids)?;
        }
        let (asked, passes) = (self.new_tokens, Event::forwards(&self.events));
        match passes {
            _ if passes == asked => Ok(()),
            _ if self.ends_after.is_some_and(|end| passes == end || passes == end + 1) => wrong!(
                "{asked} tokens were asked for, but {passes} were generated: the model wanted to end its text. \
                 Formats that say different things would be timed over different lengths; set `stop_at_eos: false`"
            ),
            _ => wrong!("{asked} tokens were asked for, but {passes} were generated"),
        }
    }

    fn latency_fits(&self) -> Verdict {
        let passed = self.timed()?.passed;
        let is = |value: f64| (self.latency_s - value).abs() <= 5e-4 * value.abs();
        match () {
            () if is(passed) => Ok(()),
            () if is(1e3 * passed) => wrong!("the latency is in milliseconds; seconds are asked for"),
            () if is(passed / self.new_tokens as f64) => {
                wrong!("that is the time of one token; the latency of the whole generation is asked for")
            }
            () => wrong!("{passed:.2} s passed on the clock, but yours says {:.2}", self.latency_s),
        }
    }

    fn text_is_new(&self) -> Verdict {
        let (got, expected) = (self.text.trim(), self.expected_text.trim());
        match () {
            () if got == expected => Ok(()),
            () if got.is_empty() => wrong!("the text is empty"),
            () if got.contains(char::REPLACEMENT_CHARACTER) => wrong!(
                "the model said {expected:?}, but you return {got:?}: a character can be made of several tokens, so \
                 decode all tokens together"
            ),
            () if got.starts_with(self.prompt) && got.ends_with(expected) => {
                wrong!("the text begins with the prompt: in the table it would look as if the model had said it")
            }
            () => wrong!("the model said {expected:?}, but you return {got:?}"),
        }
    }
}

/// Lets the first call of the model fail, the last one, and some between.
fn hands_on_errors(yours: &Answer<'_>, good: &Trial) -> Verdict {
    let answer = |machine: &Machine| {
        let loaded = ending(machine)?;
        ask(|| yours(&machine.clock(), &loaded, PROMPT, NEW_TOKENS))
    };
    passes_failures_on(COSTS, good.some_calls.iter().copied(), answer, |(text, _)| {
        format!(
            "the device failed while it worked, and yet the function returned the text {text:?}: pass the error on \
             with `?`"
        )
    })?;
    let machine = Machine::new(COSTS);
    let mut loaded = ending(&machine)?;
    loaded.tokenizer = Machine::failing_tokenizer()?;
    const WENT_ON: &str = "the tokenizer failed, and yet the function went on: pass the error on with `?`";
    let got = ask(|| yours(&machine.clock(), &loaded, PROMPT, NEW_TOKENS));
    let message = error_of(got, |_| WENT_ON)?;
    Complaint::unless(!message.contains("prompt is empty"), || WENT_ON)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Otherwise decoding token by token would give the right text.
    #[test]
    fn some_characters_are_made_of_several_tokens() {
        let tokenizer = tokenizer().unwrap();
        let ids = tokenizer.encode(SAYING).unwrap();
        assert_eq!(tokenizer.decode(&ids).unwrap(), SAYING);
        let pieces: String = ids.iter().map(|id| tokenizer.decode(&[*id]).unwrap()).collect();
        assert!(pieces.contains(char::REPLACEMENT_CHARACTER), "{pieces:?}");
        assert_ne!(ids.len(), NEW_TOKENS);
    }

    #[test]
    fn a_prompt_with_a_special_token_is_not_the_text_of_its_tokens() {
        let tokenizer = tokenizer().unwrap();
        assert_ne!(tokenizer.decode(&tokenizer.encode(SPECIAL_PROMPT).unwrap()).unwrap(), SPECIAL_PROMPT);
    }
}

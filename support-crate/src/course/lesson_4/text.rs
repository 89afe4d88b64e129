//! `generate_text_and_time`: one generation, its text and its time.

use crate::course::probe::{Costs, Event, Machine, ProbeModel, Timed, one_of};
use crate::course::{Check, Complaint, Score, ask};
use crate::error::Result;
use crate::measure::Clock;
use crate::model::Loaded;

const PROMPT: &str = "Once upon a time there lived a fisher";
const NEW_TOKENS: usize = 8;

const HINTS: [&str; 3] = [
    "What do you want to know the time of, and what of your function is not that?",
    "Text to ids; wait for the device; read the clock; generate; wait for the device; read the clock; ids to text.",
    "`let ids = loaded.tokenizer.encode(prompt)?;`, `loaded.model.synchronize()?;`, `let start = clock.now();`, \
     `generate_tokens(&*loaded.model, &[ids], &options, &mut |_, _| ())?` with `stop_at_eos: false`, \
     `loaded.model.synchronize()?;`, `let latency = clock.now() - start;`, and \
     `loaded.tokenizer.decode(&generated[0].tokens)?`",
];

/// Checks `generate_text_and_time(clock, loaded, prompt, max_new_tokens)`: the new text and seconds.
pub fn check_generate_text_and_time(
    yours: impl Fn(&dyn Clock, &Loaded, &str, usize) -> Result<(String, f64)>,
) -> Score {
    // One that would like to end its text in the middle, and one that says another word each time.
    let ending = Trial::run(&yours, |model, prompt_tokens| model.ending_at(prompt_tokens + NEW_TOKENS / 2));
    let talking = Trial::run(&yours, |model, _| model.saying(|_, position| one_of(word(position), 4096)));
    Check::new("generate_text_and_time", HINTS)
        .about(&ending, "reads the clock that it was given, before and after", |trial| trial.timed().map(drop))
        .about(&ending, "keeps the tokenizer out of the timed part", |trial| trial.timed()?.leaves_text_outside())
        .about(&ending, "waits for the device before the clock starts", |trial| trial.timed()?.waits_before())
        .about(&ending, "waits for the device before the clock stops", |trial| trial.timed()?.waits_after())
        .about(&ending, "generates once, exactly max_new_tokens tokens", Trial::generates_all)
        .about(&ending, "the latency is what passed between the readings", Trial::latency_fits)
        .about(&talking, "the text is that of the new tokens, without the prompt", Trial::text_is_new)
        .score()
}

/// What the talking model says after a position: whole words of the embedded tokenizer.
fn word(position: usize) -> u32 {
    2000 + position as u32
}

/// One call of the answer, and what happened on the machine meanwhile.
struct Trial {
    text: String,
    latency: f64,
    events: Vec<Event>,
    prompt_tokens: usize,
    expected_text: String,
}

impl Trial {
    fn run(
        yours: &impl Fn(&dyn Clock, &Loaded, &str, usize) -> Result<(String, f64)>,
        model: impl FnOnce(ProbeModel, usize) -> ProbeModel,
    ) -> Result<Self, Complaint> {
        let costs = Costs { is_asynchronous: true, encode: 1e4, decode: 1e5, ..Costs::default() };
        let tokenizer = Machine::new(costs).tokenizer()?;
        let prompt_tokens = tokenizer.encode(PROMPT)?.len();
        let said: Vec<u32> = (prompt_tokens - 1..).take(NEW_TOKENS).map(word).collect();
        let machine = Machine::new(costs);
        let loaded = machine.loaded(|probe| model(probe, prompt_tokens))?;
        let (text, latency) = ask(|| yours(&machine.clock(), &loaded, PROMPT, NEW_TOKENS))?;
        Ok(Self { text, latency, events: machine.events(), prompt_tokens, expected_text: tokenizer.decode(&said)? })
    }

    fn timed(&self) -> Result<Timed<'_>, Complaint> {
        Timed::of(&self.events)
    }

    fn generates_all(&self) -> Result<(), Complaint> {
        let prompts_read = self.events.iter().filter(|event| reads(event, self.prompt_tokens)).count();
        if prompts_read > 1 {
            return Err(Complaint::wrong(format!(
                "the prompt was generated from {prompts_read} times; once is enough, warming up is left to the caller"
            )));
        }
        match self.events.iter().filter(|event| event.is_forward()).count() {
            NEW_TOKENS => Ok(()),
            passes if passes < NEW_TOKENS => Err(Complaint::wrong(format!(
                "{NEW_TOKENS} tokens were asked for, {passes} were generated: the model wanted to end its text. Formats \
                 that say different things would be timed over different lengths; set `stop_at_eos: false`"
            ))),
            passes => Err(Complaint::wrong(format!("{NEW_TOKENS} tokens were asked for, {passes} were generated"))),
        }
    }

    fn latency_fits(&self) -> Result<(), Complaint> {
        let passed = self.timed()?.passed;
        let is = |value: f64| (self.latency - value).abs() <= 1e-6 * value.abs().max(1.0);
        match () {
            () if is(passed) => Ok(()),
            () if is(1e3 * passed) => Err(Complaint::wrong("the latency is in milliseconds; seconds are asked for")),
            () if is(passed / NEW_TOKENS as f64) => {
                Err(Complaint::wrong("that is the time of one token; the latency of the whole generation is asked for"))
            }
            () => Err(Complaint::wrong(format!("{passed:.2} s passed on the clock, you say {:.2}", self.latency))),
        }
    }

    fn text_is_new(&self) -> Result<(), Complaint> {
        let (got, expected) = (self.text.trim(), self.expected_text.trim());
        match () {
            () if got == expected => Ok(()),
            () if got.is_empty() => Err(Complaint::wrong("the text is empty")),
            () if got.starts_with(PROMPT) && got.ends_with(expected) => Err(Complaint::wrong(
                "the text begins with the prompt: in the table that would look as if the model had said it",
            )),
            () => Err(Complaint::wrong(format!("the model said {expected:?}, you return {got:?}"))),
        }
    }
}

fn reads(event: &Event, prompt_tokens: usize) -> bool {
    matches!(*event, Event::Forward { past_len: 0, seq_len, .. } if seq_len == prompt_tokens)
}

//! The clock, the costs, and what has happened.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use quantlab::error::{Error, Result};
use quantlab::measure::Clock;
use quantlab::model::{Hub, ModelHub, Tokenizer, TokenizerUse};
use quantlab::source::ModelFile;

/// What work costs, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Costs {
    /// A forward pass, however short.
    pub step: f64,
    /// Starting a forward pass, which the caller always waits for.
    pub launch: f64,
    /// Each token of a forward pass, padding included.
    pub token: f64,
    /// Each byte of weights; every forward pass reads all of them.
    pub byte: f64,
    /// An extra for the first forward pass of each model: what a warm-up is for.
    pub cold_start: f64,
    /// Text to ids, each time.
    pub encode: f64,
    /// Ids to text, each time.
    pub decode: f64,
    /// How much more each forward pass costs than the one before, as on a machine that gets warmer: no two runs
    /// then take the same time, so that each can be told from its repeats.
    pub drift: f64,
    /// An extra for one forward pass in every 23: of runs of a few passes, some take several times as long as their
    /// neighbours, as on a machine that is shared.
    pub pause: f64,
    /// Whether the device works on while the caller goes on, as a GPU does: passes are then paid for when the
    /// device is waited for.
    pub is_asynchronous: bool,
}

impl Costs {
    /// A step costs 1 and a token a hundredth, and the caller waits for them; everything else is free.
    pub const PLAIN: Self = Self {
        step: 1.0,
        launch: 0.0,
        token: 0.01,
        byte: 0.0,
        cold_start: 0.0,
        encode: 0.0,
        decode: 0.0,
        drift: 0.0,
        pause: 0.0,
        is_asynchronous: false,
    };
}

/// One forward pass in this many has a [pause](Costs::pause).
const PAUSES: usize = 23;

/// Something that was done on the machine, in order.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Event {
    /// The clock was read, and showed this.
    Clock {
        /// In seconds.
        now: f64,
    },
    /// Text became ids.
    Encode,
    /// Ids became text.
    Decode,
    /// A model came into memory.
    Load,
    /// A model was dropped.
    Unload,
    /// The device was waited for.
    Synchronize,
    /// A forward pass.
    Forward {
        /// Sequences.
        batch: usize,
        /// New tokens of each, padding included.
        seq_len: usize,
        /// Tokens of each that came from the cache.
        past_len: usize,
        /// How many of the tokens of the pass are padding.
        padding: usize,
    },
}

/// What a forward pass computed: one for each [`Event::Forward`], in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pass {
    /// How many models had been loaded before the one that was run.
    pub model: usize,
    /// The ids that the model was given, padding included.
    pub ids: Vec<u32>,
}

/// A machine: share it among a clock, models and tokenizers by cloning.
#[derive(Debug, Clone)]
pub struct Machine {
    costs: Costs,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    now: f64,
    /// Started, not waited for.
    pending: f64,
    is_warm: bool,
    events: Vec<Event>,
    passes: Vec<Pass>,
    /// Calls of models so far: forward passes and waits.
    calls: usize,
    /// Which of them fails.
    fails_at: Option<usize>,
}

impl Machine {
    /// A machine that has done nothing yet.
    pub fn new(costs: Costs) -> Self {
        Self { costs, state: Arc::default() }
    }

    /// A machine whose clock has run for this many seconds: only differences between its readings mean anything.
    pub fn running_for(costs: Costs, seconds: f64) -> Self {
        let machine = Self::new(costs);
        machine.state().now = seconds;
        machine
    }

    /// A machine on which one call of a model fails: the forward pass or wait number `call`, counted from 0.
    pub fn failing_at(costs: Costs, call: usize) -> Self {
        let machine = Self::new(costs);
        machine.state().fails_at = Some(call);
        machine
    }

    /// The clock of this machine.
    pub fn clock(&self) -> ProbeClock {
        ProbeClock(self.clone())
    }

    /// What has happened so far.
    pub fn events(&self) -> Vec<Event> {
        self.state().events.clone()
    }

    /// The forward passes so far.
    pub fn forwards(&self) -> Vec<Event> {
        self.events().into_iter().filter(|event| matches!(event, Event::Forward { .. })).collect()
    }

    /// What the forward passes computed so far.
    pub fn passes(&self) -> Vec<Pass> {
        self.state().passes.clone()
    }

    /// Looks at what has happened so far, and at what the forward passes computed.
    pub fn look<T>(&self, look: impl FnOnce(&[Event], &[Pass]) -> T) -> T {
        let state = self.state();
        look(&state.events, &state.passes)
    }

    /// How many calls of models there were so far, each of which can fail.
    pub fn calls(&self) -> usize {
        self.state().calls
    }

    /// Whether the call that was to fail was made: another answer, or another way of an answer, may not get there.
    pub fn has_failed(&self) -> bool {
        let state = self.state();
        state.fails_at.is_some_and(|call| call < state.calls)
    }

    /// A few of these calls, from the first to the last: enough to find out whether an error gets lost on its way.
    pub fn some_calls(&self) -> impl Iterator<Item = usize> + use<> {
        const PARTS: usize = 12;
        let last = self.calls().saturating_sub(1);
        (0..=PARTS.min(last)).map(move |part| part * last / PARTS.min(last).max(1))
    }

    /// The tokenizer of the embedded model, whose uses this machine notes and charges.
    ///
    /// # Errors
    /// None in practice: the file is part of the library.
    pub fn tokenizer(&self) -> Result<Tokenizer> {
        // Read once: a check makes a machine for each call that it lets fail.
        static EMBEDDED: OnceLock<Tokenizer> = OnceLock::new();
        let tokenizer = match EMBEDDED.get() {
            Some(tokenizer) => tokenizer,
            None => {
                let read = Hub.tokenizer("embedded")?;
                EMBEDDED.get_or_init(|| read)
            }
        };
        let machine = self.clone();
        Ok(tokenizer.clone().observed(move |what| machine.tokenizer_used(what)))
    }

    /// A tokenizer that fails: it knows one word, which is in no text.
    ///
    /// # Errors
    /// None in practice: the file is written here.
    pub fn failing_tokenizer() -> Result<Tokenizer> {
        let json = br#"{"version": "1.0", "model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "?"}}"#;
        Tokenizer::read(&ModelFile::embedded("failing/tokenizer.json", json))
    }

    fn tokenizer_used(&self, what: TokenizerUse) {
        let (event, cost) = match what {
            TokenizerUse::Encode => (Event::Encode, self.costs.encode),
            TokenizerUse::Decode => (Event::Decode, self.costs.decode),
        };
        let mut state = self.state();
        state.events.push(event);
        state.now += cost;
    }

    pub(super) fn forward(&self, batch: usize, seq_len: usize, past_len: usize, padding: usize) {
        let mut state = self.state();
        state.events.push(Event::Forward { batch, seq_len, past_len, padding });
        state.now += self.costs.launch;
        let drift = self.costs.drift * state.passes.len() as f64;
        let cold_start = if state.is_warm { 0.0 } else { self.costs.cold_start };
        state.is_warm = true;
        let pause = if state.passes.len().is_multiple_of(PAUSES) { self.costs.pause } else { 0.0 };
        state.pending += pause + cold_start + self.costs.step + drift + self.costs.token * (batch * seq_len) as f64;
        if !self.costs.is_asynchronous {
            state.settle();
        }
    }

    /// Notes what a forward pass is about to compute, and reads the weights for it.
    pub(super) fn begin_pass(&self, pass: Pass, weights: usize) -> Result<()> {
        let mut state = self.state();
        state.call()?;
        state.passes.push(pass);
        state.pending += self.costs.byte * weights as f64;
        Ok(())
    }

    /// Loads a model into memory; returns how many were loaded before it.
    pub(super) fn load(&self) -> usize {
        let mut state = self.state();
        let before = state.events.iter().filter(|event| matches!(event, Event::Load)).count();
        state.events.push(Event::Load);
        state.is_warm = false;
        before
    }

    pub(super) fn unload(&self) {
        self.state().events.push(Event::Unload);
    }

    pub(super) fn synchronize(&self) -> Result<()> {
        let mut state = self.state();
        state.call()?;
        state.events.push(Event::Synchronize);
        state.settle();
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // An answer that panicked while it held the lock leaves only numbers, which are intact.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Counts a call of a model.
    fn call(&mut self) -> Result<()> {
        let call = self.calls;
        self.calls += 1;
        if self.fails_at == Some(call) { Err(Error::system("the device has failed")) } else { Ok(()) }
    }

    fn settle(&mut self) {
        self.now += std::mem::take(&mut self.pending);
    }
}

/// The time on a [`Machine`].
#[derive(Debug, Clone)]
pub struct ProbeClock(Machine);

impl Clock for ProbeClock {
    fn now(&self) -> f64 {
        let mut state = self.0.state();
        let now = state.now;
        state.events.push(Event::Clock { now });
        now
    }
}

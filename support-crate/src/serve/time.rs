//! A server's time: that on the wall, or what its steps are said to cost.

use std::time::Duration;

use serde::Serialize;

use crate::error::{Error, Result};
use crate::interrupt;
use crate::measure::{Clock, WallClock};

/// What a step computes, before it does.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct StepWork {
    /// The requests of the step.
    pub parts: Vec<StepPart>,
    /// Tokens whose keys and values are copied from the prefix cache.
    pub copied_tokens: usize,
}

/// A request's part of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct StepPart {
    /// The request.
    pub id: usize,
    /// Tokens before the ones that are computed.
    pub past_tokens: usize,
    /// Tokens that are computed.
    pub tokens: usize,
}

impl StepWork {
    /// Tokens that are computed, of all requests.
    pub fn tokens(&self) -> usize {
        self.parts.iter().map(|part| part.tokens).sum()
    }
}

pub(super) enum Time<'m> {
    Wall { start: f64 },
    Virtual { now: f64, cost: Box<dyn FnMut(&StepWork) -> f64 + 'm> },
}

impl Time<'_> {
    pub(super) fn wall() -> Self {
        Self::Wall { start: WallClock.now() }
    }

    /// Seconds since the server began.
    pub(super) fn now(&self) -> f64 {
        match self {
            Self::Wall { start } => WallClock.now() - start,
            Self::Virtual { now, .. } => *now,
        }
    }

    /// # Errors
    /// The cell was interrupted.
    pub(super) fn wait_until(&mut self, at: f64) -> Result<()> {
        if let Self::Virtual { now, .. } = self {
            *now = now.max(at);
            return Ok(());
        }
        interrupt::until(|moment| {
            let left = Duration::try_from_secs_f64(at - self.now()).unwrap_or_default();
            std::thread::sleep(left.min(moment));
            (self.now() >= at).then_some(())
        })
    }

    /// The seconds that a step takes; 0 where time passes by itself.
    ///
    /// # Errors
    /// A cost that is no time.
    pub(super) fn cost(&mut self, work: &StepWork) -> Result<f64> {
        let Self::Virtual { cost, .. } = self else { return Ok(0.0) };
        let seconds = cost(work);
        if !(seconds >= 0.0 && seconds.is_finite()) {
            return Err(Error::input(format!("a step cannot take {seconds} s"))
                .hint("the cost must be a finite number of seconds, not negative"));
        }
        Ok(seconds)
    }

    /// Lets a step's time pass, if it does not by itself.
    pub(super) fn pass(&mut self, seconds: f64) {
        if let Self::Virtual { now, .. } = self {
            *now += seconds;
        }
    }
}

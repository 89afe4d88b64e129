//! What an answer to `run_experiment` generated, from what happened on the machine.

use crate::probe::{Event, Machine, Pass};

/// One generation: which configuration's model, from which prompt, and how long it took by the answer's readings of the
/// clock around it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Generation {
    pub place: usize,
    pub prompt: Option<usize>,
    pub new_tokens: usize,
    pub seconds: Option<f64>,
    /// The place of its first forward pass among the events.
    pub begins: usize,
}

/// The generations of a machine, from its forward passes: one begins with a pass that does not go on from the one before.
pub(super) fn generations(machine: &Machine, prompts: &[Vec<u32>], loaded: &[usize], shown: &[f64]) -> Vec<Generation> {
    let mut generations: Vec<Generation> = Vec::new();
    let (mut passes, mut shown) = (machine.passes().into_iter(), shown.iter());
    let (mut before, mut start, mut is_running): (Option<Pass>, Option<f64>, bool) = (None, None, false);
    for (begins, event) in machine.events().into_iter().enumerate() {
        match event {
            Event::Forward { past_len, .. } => {
                let Some(pass) = passes.next() else { break };
                let goes_on = past_len > 0
                    || before.as_ref().is_some_and(|before| is_running && pass.ids.starts_with(&before.ids));
                if !goes_on {
                    let place = loaded.get(pass.model).copied().unwrap_or(usize::MAX);
                    let prompt = prompts.iter().position(|prompt| *prompt == pass.ids);
                    generations.push(Generation { place, prompt, new_tokens: 0, seconds: None, begins });
                }
                generations.iter_mut().last().into_iter().for_each(|last| last.new_tokens += 1);
                (before, is_running) = (Some(pass), true);
            }
            Event::Clock { .. } => {
                let now = shown.next().copied();
                if let (true, Some(last), Some(now), Some(start)) = (is_running, generations.last_mut(), now, start) {
                    last.seconds = Some(now - start);
                }
                (start, is_running) = (now, false);
            }
            _ => {}
        }
    }
    generations
}

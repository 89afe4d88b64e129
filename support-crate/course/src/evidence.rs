//! Where the times of an answer come from: the runs that it returned, against what the machine did.

use std::ops::Range;

use quantlab::generate::PaddingSide;
use quantlab::measure::{Metrics, Runs};

use super::probe::{Event, Machine, Pass, Stretch};
use super::{Complaint, Verdict};

/// What happened on a machine during one call of an answer, and what the runs that it returned were timed on.
pub(super) struct Evidence {
    events: Vec<Event>,
    passes: Vec<Pass>,
    /// The runs of each row that the answer returned.
    pub(super) rows: Vec<Runs>,
    sources: Result<Vec<Vec<Source>>, Complaint>,
    /// Calls of models: each of them, and some that are enough to find out whether an error gets lost.
    pub(super) calls: usize,
    pub(super) some_calls: Vec<usize>,
}

/// What one run was timed on: a generation from a batch, if all is well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Source {
    /// The number of the model, in the order of loading.
    pub(super) model: usize,
    /// What the model read first: the ids of all sequences, padding included.
    pub(super) prompt: Vec<u32>,
    /// How many of them each sequence has.
    seq_len: usize,
    /// Tokens of padding among them.
    padding: usize,
    /// Whether tokens after the first were computed with a cache.
    pub(super) use_cache: bool,
    /// Its forward passes, among all of the machine.
    pub(super) passes: Range<usize>,
    /// Whether the tokenizer ran between the readings of the clock.
    encodes: bool,
    /// Whether ids became text there.
    decodes: bool,
    /// Whether the model had run before the clock started.
    is_warm: bool,
    /// Whether the device was waited for after the last pass, before the clock was read again.
    waits: bool,
}

impl Evidence {
    /// What came of a call that returned these runs. `a_run_is` says in the words of the lesson what a run is, and
    /// `if_empty` why one is probably empty.
    pub(super) fn of<'a>(
        machine: &Machine,
        rows: impl IntoIterator<Item = &'a Runs>,
        a_run_is: &str,
        if_empty: &str,
    ) -> Self {
        let (events, passes): (Vec<Event>, Vec<Pass>) = (machine.events(), machine.passes());
        let rows: Vec<Runs> = rows.into_iter().cloned().collect();
        let source = |run: &Metrics| Source::of(run, &events, &passes, a_run_is, if_empty);
        let sources = rows.iter().map(|row| row.runs.iter().map(source).collect()).collect();
        Self { sources, events, passes, rows, calls: machine.calls(), some_calls: machine.some_calls().collect() }
    }

    /// What the runs of each row were timed on.
    ///
    /// # Errors
    /// A run was not timed on this machine.
    pub(super) fn sources(&self) -> Result<&[Vec<Source>], Complaint> {
        self.sources.as_deref().map_err(Complaint::clone)
    }

    /// # Errors
    /// A row has more or fewer runs than requested, or a run was counted more than once.
    pub(super) fn repeated(&self, repeats: usize) -> Verdict {
        let sources = self.sources()?;
        if let Some(row) = self.rows.iter().find(|row| row.runs.len() != repeats) {
            return wrong!("`repeats` was {repeats}, but a row has {} runs", row.runs.len());
        }
        let mut starts: Vec<usize> = sources.iter().flatten().map(|source| source.passes.start).collect();
        let all = starts.len();
        starts.sort_unstable();
        starts.dedup();
        Complaint::unless(starts.len() == all, || {
            format!(
                "your rows have {all} runs, but only {} were timed: one run was counted more than once",
                starts.len()
            )
        })
    }

    /// Whether there was a run like the first one of a row before it: the same batch, in the same setting.
    pub(super) fn drops_first(&self, row: &[Source]) -> bool {
        let Some(first) = row.iter().min_by_key(|source| source.passes.start) else { return true };
        let past_lens = self.events.iter().filter_map(|event| match *event {
            Event::Forward { past_len, .. } => Some(past_len),
            _ => None,
        });
        let cached = past_lens.skip(1).map(|past_len| past_len > 0);
        let mut pairs = self.passes.iter().zip(cached).take(first.passes.start.saturating_sub(1));
        pairs.any(|(pass, cached)| pass.ids == first.prompt && cached == first.use_cache)
    }
}

impl Source {
    /// The forward passes between the two readings of the clock whose difference is the time that the run reports.
    ///
    /// # Errors
    /// There are no such readings, or nothing was generated between them.
    fn of(run: &Metrics, events: &[Event], passes: &[Pass], a_run_is: &str, if_empty: &str) -> Result<Self, Complaint> {
        let seconds = run.total_latency_s;
        let Some(Stretch { first, last, .. }) = Stretch::of(events, seconds) else {
            return wrong!(
                "a row has a run of {seconds:.4} s, but no two readings of the clock are that far apart: {a_run_is}"
            );
        };
        let inside = &events[first..last];
        let start = Event::forwards(&events[..first]);
        let forward = inside.iter().find_map(|event| match *event {
            Event::Forward { seq_len, padding, .. } => Some((seq_len, padding)),
            _ => None,
        });
        let (Some((seq_len, padding)), Some(pass)) = (forward, passes.get(start)) else {
            return wrong!("a row has a run of {seconds:.4} s in which nothing was generated{if_empty}");
        };
        let last_pass = inside.iter().rposition(Event::is_forward).unwrap_or(0);
        Ok(Self {
            model: pass.model,
            prompt: pass.ids.clone(),
            seq_len,
            padding,
            use_cache: inside.iter().any(|event| matches!(event, Event::Forward { past_len: 1.., .. })),
            passes: start..start + Event::forwards(inside),
            encodes: inside.contains(&Event::Encode),
            decodes: inside.contains(&Event::Decode),
            is_warm: start > 0,
            waits: inside[last_pass..].contains(&Event::Synchronize),
        })
    }

    /// The ids of each sequence.
    fn rows(&self) -> impl ExactSizeIterator<Item = &[u32]> {
        self.prompt.chunks(self.seq_len.max(1))
    }

    /// # Errors
    /// Something other than generating was timed, or not all of it.
    pub(super) fn times_only_generating(&self) -> Verdict {
        let message = if self.decodes {
            "ids were turned into text between the readings of the clock: that is not the model's work"
        } else if self.encodes {
            "the tokenizer ran between the readings of the clock: turn the prompts into ids before the clock starts"
        } else if !self.waits {
            "your clock stopped while the device was still computing: call `loaded.model.synchronize()?` before both \
             readings"
        } else if !self.is_warm {
            "the very first run was timed, with everything that only a first run pays for (page faults, empty caches, \
             threads waking up): run once and drop the result before you time"
        } else {
            return Ok(());
        };
        Err(Complaint::wrong(message))
    }

    /// # Errors
    /// The batch was not made of these prompts, all together.
    pub(super) fn reads(&self, prompts: &[Vec<u32>]) -> Verdict {
        let (asked, got) = (prompts.len(), self.rows().len());
        Complaint::unless(asked == got, || {
            format!("there are {asked} prompts, but a run was timed on a batch of {got}: all prompts make one batch")
        })?;
        let other =
            self.rows().zip(prompts).position(|(row, prompt)| !row.starts_with(prompt) && !row.ends_with(prompt));
        other.map_or(Ok(()), |index| wrong!("a run was timed on a text other than prompt {index}"))
    }

    /// Where the prompts were padded; `None` if nothing says.
    pub(super) fn padding_side(&self, prompts: &[Vec<u32>]) -> Option<PaddingSide> {
        let mut padded = self.rows().zip(prompts).filter(|(row, prompt)| row.len() > prompt.len());
        let (row, prompt) = padded.next().filter(|_| self.padding > 0)?;
        Some(if row.ends_with(prompt) { PaddingSide::Left } else { PaddingSide::Right })
    }

    /// # Errors
    /// The runs were timed on a number of new tokens other than the one requested, or report another number.
    pub(super) fn makes(&self, run: &Metrics, prompts: &[Vec<u32>], new_tokens: usize) -> Verdict {
        let (sequences, passes, counted) = (prompts.len(), self.passes.len(), run.tokens_generated);
        let expected = sequences * new_tokens;
        let all = format!("{sequences} prompts with {new_tokens} new tokens each are {expected} tokens");
        let in_prompts: usize = prompts.iter().map(Vec::len).sum();
        let message = if counted == expected + in_prompts || counted == expected + self.prompt.len() {
            format!("{all}; you say {counted}: the tokens of the prompts, or their padding, were counted as generated")
        } else if sequences > 1 && counted == new_tokens {
            format!("{all}; you say {counted}: that is what one sequence got, and the others did their work too")
        } else if passes < new_tokens {
            format!(
                "{new_tokens} new tokens were asked for, but a run made {passes}: is `stop_at_eos` false, and \
                 `max_new_tokens` the same everywhere? Runs of different lengths cannot be compared"
            )
        } else if passes > new_tokens {
            format!("{new_tokens} new tokens were asked for, but a run was timed on {passes} passes of the model")
        } else if counted < expected {
            format!("{all}; you say {counted}: were all prompts answered, and is `stop_at_eos` false?")
        } else if counted > expected {
            format!("{all}; you say {counted}")
        } else {
            return Ok(());
        };
        Err(Complaint::wrong(message))
    }
}

/// # Errors
/// What the model read first was not the prompt.
pub(super) fn is_whole_prompt(read: &[u32], prompt: &[u32]) -> Verdict {
    Complaint::unless(read == prompt, || {
        let (prompt, read) = (prompt.len(), read.len());
        match read == prompt {
            true => format!("the prompt has {prompt} tokens; the model was given as many, but different ones"),
            false => format!("the prompt has {prompt} tokens, but the model was given {read}"),
        }
    })
}

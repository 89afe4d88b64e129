//! Where the numbers of a sweep come from: the rows that an answer returned, against what the machine did.

use std::ops::Range;

use crate::course::Complaint;
use crate::course::probe::{Event, Machine, Pass, Stretch};
use crate::measure::{Metrics, Runs};

/// What happened on a machine during a sweep.
pub(super) struct Evidence {
    events: Vec<Event>,
    passes: Vec<Pass>,
}

/// What a run was timed on: one generation, if all is well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Source {
    /// The number of the model, in the order of loading.
    pub(super) model: usize,
    /// The prompt's ids.
    pub(super) prompt: Vec<u32>,
    /// Whether tokens after the first were computed with a cache.
    pub(super) use_cache: bool,
    /// Its forward passes, among all of the machine.
    passes: Range<usize>,
}

/// What every run of a sweep was told.
#[derive(Debug, Clone, Copy)]
pub(super) struct Told {
    pub(super) new_tokens: usize,
    pub(super) use_cache: bool,
    pub(super) repeats: usize,
}

impl Evidence {
    pub(super) fn of(machine: &Machine) -> Self {
        Self { events: machine.events(), passes: machine.passes() }
    }

    /// What a run was timed on: the forward passes between the readings of the clock that are as far apart as it says.
    ///
    /// # Errors
    /// There are no such readings, or nothing was generated between them.
    fn source(&self, run: &Metrics) -> Result<Source, Complaint> {
        let seconds = run.total_latency_s;
        let Some(Stretch { first, last, .. }) = Stretch::of(&self.events, seconds) else {
            return Err(Complaint::wrong(format!(
                "a row has a run of {seconds:.4} s, but no two readings of the clock are that far apart: each run is what \
                 `time_generate` returns, with the clock that was passed in"
            )));
        };
        let count = |events: &[Event]| events.iter().filter(|event| event.is_forward()).count();
        let start = count(&self.events[..first]);
        let passes = start..start + count(&self.events[first..last]);
        let Some(Pass { model, ids }) = self.passes[passes.clone()].first().cloned() else {
            return Err(Complaint::wrong(format!("a row has a run of {seconds:.4} s in which nothing was generated")));
        };
        let cached = |event: &Event| matches!(event, Event::Forward { past_len: 1.., .. });
        Ok(Source { model, prompt: ids, use_cache: self.events[first..last].iter().any(cached), passes })
    }

    /// What the runs of each row were timed on.
    ///
    /// # Errors
    /// A run was not timed on this machine.
    pub(super) fn sources(&self, rows: &[&Runs]) -> Result<Vec<Vec<Source>>, Complaint> {
        rows.iter().map(|row| row.runs.iter().map(|run| self.source(run)).collect()).collect()
    }
}

impl Told {
    /// # Errors
    /// A run made another number of new tokens than told, or says so.
    pub(super) fn same_new_tokens(&self, rows: &[&Runs], sources: &[Vec<Source>]) -> Result<(), Complaint> {
        let told = self.new_tokens;
        let counts: Vec<usize> = rows.iter().flat_map(|row| &row.runs).map(|run| run.tokens_generated).collect();
        if let Some(count) = counts.iter().find(|&&count| count != told) {
            let differ = counts.iter().any(|count| *count != counts[0]);
            return Err(Complaint::wrong(match differ {
                true => format!(
                    "`max_new_tokens` was {told} for the whole sweep, your rows generated {counts:?} tokens: then a row \
                     is slow because it makes more tokens, and the sweep shows nothing"
                ),
                false => format!("`max_new_tokens` was {told}, your rows generated {count} tokens"),
            }));
        }
        let other = sources.iter().flatten().map(|source| source.passes.len()).find(|&passes| passes != told);
        other.map_or(Ok(()), |passes| {
            Err(Complaint::wrong(match passes % told {
                0 => format!("a run covers {} generations: does your stopwatch time the warm-up too?", passes / told),
                _ => format!("`max_new_tokens` was {told}, but a run was timed on {passes} new tokens"),
            }))
        })
    }

    /// # Errors
    /// A row has more or fewer runs than told, or one that stands somewhere else too.
    pub(super) fn repeated(&self, rows: &[&Runs], sources: &[Vec<Source>]) -> Result<(), Complaint> {
        if let Some(row) = rows.iter().find(|row| row.runs.len() != self.repeats) {
            let (repeats, runs) = (self.repeats, row.runs.len());
            return Err(Complaint::wrong(format!("`repeats` was {repeats}, a row has {runs} runs")));
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

    /// # Errors
    /// The cache was used where it was not to be, or the other way round.
    pub(super) fn cache_as_told(&self, sources: &[Vec<Source>]) -> Result<(), Complaint> {
        let told = self.use_cache;
        Complaint::unless(sources.iter().flatten().all(|source| source.use_cache == told), || {
            format!("`use_cache` was {told}, but a row ran {} the cache", if told { "without" } else { "with" })
        })
    }
}

/// # Errors
/// The rows were not measured in turn, one run of each before the next round.
pub(super) fn took_turns(sources: &[Vec<Source>]) -> Result<(), Complaint> {
    let starts = sources.iter().enumerate().flat_map(|(row, of_row)| of_row.iter().map(move |s| (s.passes.start, row)));
    let mut order: Vec<(usize, usize)> = starts.collect();
    order.sort_unstable();
    let order: Vec<usize> = order.into_iter().map(|(_, row)| row).collect();
    let is_round = |round: &[usize]| (0..sources.len()).all(|row| round.contains(&row));
    Complaint::unless(order.chunks(sources.len().max(1)).all(is_round), || {
        format!(
            "the rows ran in the order {order:?}: time one run of each row, then the next round, so that whatever else \
             the machine does meanwhile happens to all rows alike"
        )
    })
}

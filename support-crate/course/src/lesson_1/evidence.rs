//! Where the numbers of a sweep come from: the rows that an answer returned, against what the machine did.

use quantlab::measure::Runs;

use crate::evidence::{Evidence, Source};
use crate::probe::{Costs, Machine};
use crate::{Complaint, Verdict};

/// Costs under which no two runs take the same time: the drift of no number of passes makes up for a few tokens.
pub(super) const COSTS: Costs = Costs { drift: 1.0371e-3, pause: 20.0, cold_start: 50.0, ..Costs::PLAIN };

/// What happened on a machine during a sweep that gave these runs.
pub(super) fn evidence_of<'a>(machine: &Machine, rows: impl IntoIterator<Item = &'a Runs>) -> Evidence {
    Evidence::of(machine, rows, "each run is what `time_generate` returns, with the clock that was passed in", "")
}

impl Evidence {
    /// # Errors
    /// A run made a number of new tokens other than the one requested, or reports another number.
    pub(super) fn same_new_tokens(&self, told: usize) -> Verdict {
        let sources = self.sources()?;
        let counts: Vec<usize> = self.rows.iter().flat_map(|row| &row.runs).map(|run| run.tokens_generated).collect();
        if let Some(count) = counts.iter().find(|&&count| count != told) {
            if counts.iter().any(|count| *count != counts[0]) {
                return wrong!(
                    "`max_new_tokens` was {told} for the whole sweep, but your rows generated {counts:?} tokens: then \
                     a row is slow because it makes more tokens, and the sweep shows nothing"
                );
            }
            return wrong!("`max_new_tokens` was {told}, but your rows generated {count} tokens");
        }
        let other = sources.iter().flatten().map(|source| source.passes.len()).find(|&passes| passes != told);
        other.map_or(Ok(()), |passes| match passes % told {
            0 => wrong!("a run covers {} generations: does your stopwatch time the warm-up too?", passes / told),
            _ => wrong!("`max_new_tokens` was {told}, but a run was timed on {passes} new tokens"),
        })
    }

    /// # Errors
    /// The cache was used where it was not to be, or the other way round.
    pub(super) fn cache_as_told(&self, told: bool) -> Verdict {
        Complaint::unless(self.sources()?.iter().flatten().all(|source| source.use_cache == told), || {
            format!("`use_cache` was {told}, but a row ran {} the cache", if told { "without" } else { "with" })
        })
    }

    /// # Errors
    /// The rows were not measured in turn, one run of each before the next round.
    pub(super) fn took_turns(&self) -> Verdict {
        in_turn(self.sources()?)
    }
}

/// # Errors
/// Not one run of each row was made before the next round. `sources` has the runs of each row.
pub(super) fn in_turn(sources: &[Vec<Source>]) -> Verdict {
    let starts = sources.iter().enumerate().flat_map(|(row, of_row)| of_row.iter().map(move |s| (s.passes.start, row)));
    let mut order: Vec<(usize, usize)> = starts.collect();
    order.sort_unstable();
    let order: Vec<usize> = order.into_iter().map(|(_, row)| row).collect();
    let is_round = |round: &[usize]| (0..sources.len()).all(|row| round.contains(&row));
    Complaint::unless(order.chunks(sources.len().max(1)).all(is_round), || {
        format!(
            "the rows ran in the order {order:?}: time one run of each row, then the next round, so that whatever else \
             the machine does meanwhile affects all rows alike"
        )
    })
}

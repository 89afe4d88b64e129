//! Attention of new tokens to keys and values in codes and, the last ones, in float16.

use std::marker::PhantomData;
use std::ops::Range;

use super::codes::{Code, Eight, Four, Packing};
use super::mean::Coded;
use super::{GROUP, Head, KvBits, QuantizedKv, Run, Sizes};
use crate::attention::mean::weighted_mean;
use crate::attention::scores::{KEY_PANEL, KeyScores};
use crate::attention::{HEADS_AT_ONCE, QUERIES_AT_ONCE, Task};
use crate::elementwise::soft_cap_of;
use crate::isa::Isa;
use crate::matmul::{Gemm, Operands};
use crate::scratch::Scratch;
use crate::simd::{Dispatch, Kernel, Simd, widen};
use crate::sizes;
use crate::softmax::masked_exp;
use crate::strided::{Block, Divided};
use crate::threads::ThreadScope;

/// Attention of new tokens of some sequences, with heads each `group` of which share their keys and values, to all
/// tokens before them and to themselves. Their keys and values have been [appended](QuantizedKv::append).
///
/// Codes are multiplied as they are: a key's steps and lowest numbers go into the query, a value's into the codes that
/// were just loaded. All sums are float32.
#[derive(Debug, Clone, Copy)]
pub struct QuantizedAttention<'a> {
    /// Queries: rows that begin with `group` times the cache's heads of D numbers and are `q_stride` apart.
    pub q: &'a [f32],
    /// From the beginning of a row of `q` to that of the next.
    pub q_stride: usize,
    /// Keys and values.
    pub kv: &'a QuantizedKv,
    /// The new tokens. Rows ascend; those that no run has are not computed.
    pub runs: &'a [Run],
    /// How many heads share their keys and values.
    pub group: usize,
    /// Scores are multiplied by this.
    pub scale: f32,
    /// What they are bent towards then, as by [`soft_cap`](crate::soft_cap).
    pub soft_cap: Option<f32>,
    /// How many tokens back a token sees, itself included.
    pub window: usize,
}

impl QuantizedAttention<'_> {
    /// Rows of `out`, one for each row of queries: all heads side by side.
    ///
    /// # Panics
    /// A group or a window of 0; runs that overlap, that are not in the cache, or that rows of queries or outputs do not
    /// have; rows of queries that overlap.
    pub fn compute(&self, scope: &ThreadScope, out: &mut [f32]) {
        let width = self.check(out.len());
        let (isa, out) = (scope.isa(), &Divided::new(out, width));
        scope.split(self.tasks(), 1, self.work_of_a_task(), &|tasks| self.run(isa, tasks, out));
    }

    /// The same of several at once, of caches of their own, each with its outputs. Threads share all of it, where each
    /// alone may be too little to share.
    ///
    /// # Panics
    /// As [`compute`](Self::compute), for any of them.
    pub fn compute_all(all: Vec<(Self, &mut [f32])>, scope: &ThreadScope) {
        let mut parts = Vec::with_capacity(all.len());
        for (attention, out) in all {
            let width = attention.check(out.len());
            parts.push((attention, Divided::new(out, width)));
        }
        let counts: Vec<usize> = parts.iter().map(|(attention, _)| attention.tasks()).collect();
        let work = parts.iter().map(|(attention, _)| attention.work_of_a_task()).max().unwrap_or(0);
        let isa = scope.isa();
        scope.split_several(&counts, work, &|index, tasks| {
            let (attention, out) = &parts[index];
            attention.run(isa, tasks, out);
        });
    }

    /// Refuses sizes that contradict each other, the slices, or `out` numbers of output; returns the width of a row of it.
    fn check(&self, out: usize) -> usize {
        let Self { q, q_stride, kv, runs, group, window, .. } = *self;
        assert!(group > 0 && window > 0, "attention with group = {group}, window = {window}");
        let width = sizes::product("heads", &[kv.heads, group, kv.head_dim]);
        assert!(width > 0 && out.is_multiple_of(width), "outputs: {out}, not rows of {width}");
        kv.check(runs, out / width);
        let rows = runs.last().map_or(0, |last| last.row + last.count);
        assert!(
            rows == 0 || q_stride >= width && sizes::hold_rows(q.len(), rows, q_stride, width),
            "queries: {}, not {rows} rows of {width} that begin {q_stride} apart",
            q.len()
        );
        width
    }

    /// As many for each run as the one that has most.
    fn tasks(&self) -> usize {
        self.runs.len() * self.tasks_of_a_run()
    }

    fn tasks_of_a_run(&self) -> usize {
        self.runs.iter().map(|run| self.tasks_of(run)).max().unwrap_or(0)
    }

    /// Tokens of the longest sequence.
    fn longest(&self) -> usize {
        self.runs.iter().map(|run| run.position + run.count).max().unwrap_or(0)
    }

    /// Multiplications of a task.
    fn work_of_a_task(&self) -> usize {
        let queries = self.runs.iter().map(|run| run.count).max().unwrap_or(1).max(self.group);
        2 * self.longest() * self.kv.head_dim * QUERIES_AT_ONCE.min(queries)
    }

    fn run(&self, isa: Isa, tasks: Range<usize>, out: &Divided<'_, f32>) {
        let (tasks_of_a_run, longest) = (self.tasks_of_a_run(), self.longest());
        let part = Part { attention: self, tasks, tasks_of_a_run, longest, out };
        match self.kv.bits {
            KvBits::Eight => isa.dispatch(Packed { part, packing: Eight }),
            KvBits::Four => isa.dispatch(Packed { part, packing: Four }),
        }
    }

    fn tasks_of(&self, run: &Run) -> usize {
        match run.count {
            1 => self.kv.heads * self.group.div_ceil(HEADS_AT_ONCE),
            count => self.kv.heads * self.group * (run.position % QUERIES_AT_ONCE + count).div_ceil(QUERIES_AT_ONCE),
        }
    }

    /// A task of a run, if it has so many; no two have a number of the output in common. Queries of one task are of
    /// positions with the same quotient by [`QUERIES_AT_ONCE`], and see the same tokens as codes.
    fn task(&self, run: &Run, index: usize) -> Option<Task> {
        if index >= self.tasks_of(run) {
            return None;
        }
        let (d, sequence) = (self.kv.head_dim, run.sequence);
        if run.count == 1 {
            let per_group = self.group.div_ceil(HEADS_AT_ONCE);
            let (kv_head, first) = (index / per_group, index % per_group * HEADS_AT_ONCE);
            let (head, count) = (kv_head * self.group + first, HEADS_AT_ONCE.min(self.group - first));
            return Some(Task {
                sequence,
                kv_head,
                q: run.row * self.q_stride + head * d,
                q_stride: d,
                count,
                rows: run.row..run.row + 1,
                columns: head * d..(head + count) * d,
                position: run.position,
                step: 0,
            });
        }
        let before = run.position % QUERIES_AT_ONCE;
        let blocks = (before + run.count).div_ceil(QUERIES_AT_ONCE);
        let (head, block) = (index / blocks, index % blocks);
        let start = (block * QUERIES_AT_ONCE).saturating_sub(before);
        let end = ((block + 1) * QUERIES_AT_ONCE - before).min(run.count);
        let row = run.row + start;
        Some(Task {
            sequence,
            kv_head: head / self.group,
            q: row * self.q_stride + head * d,
            q_stride: self.q_stride,
            count: end - start,
            rows: row..run.row + end,
            columns: head * d..(head + 1) * d,
            position: run.position + start,
            step: 1,
        })
    }
}

/// A thread's tasks.
struct Part<'a> {
    attention: &'a QuantizedAttention<'a>,
    tasks: Range<usize>,
    tasks_of_a_run: usize,
    /// Tokens of the longest sequence.
    longest: usize,
    out: &'a Divided<'a, f32>,
}

struct Packed<'a, P> {
    part: Part<'a>,
    #[expect(dead_code, reason = "its type says how codes are packed")]
    packing: P,
}

impl<S: Simd, P: Packing<S>> Kernel<S> for Packed<'_, P> {
    #[inline(always)]
    fn run(self, simd: S) {
        let Part { attention, tasks, tasks_of_a_run, longest, out } = self.part;
        let QuantizedAttention { kv, runs, window, .. } = *attention;
        let (d, sizes) = (kv.head_dim, kv.sizes());
        let mut scores = Scratch::<f32>::uninit(QUERIES_AT_ONCE * longest.next_multiple_of(KEY_PANEL));
        let mut folded = Scratch::<f32>::uninit((QUERIES_AT_ONCE + 2) * d);
        let task_of = |index: usize| attention.task(&runs[index / tasks_of_a_run], index % tasks_of_a_run);
        for task in tasks.filter_map(task_of) {
            let keys = task.position + (task.count - 1) * task.step + 1;
            let first = |position: usize| (position + 1).saturating_sub(window);
            let coded = QuantizedKv::coded_before(task.position);
            let seen = first(task.position);
            let groups = (seen / GROUP).min(coded / GROUP)..coded / GROUP;
            let recent = seen.max(coded)..keys;
            let head = kv.head(task.sequence * kv.heads + task.kv_head);
            let stride = keys.next_multiple_of(KEY_PANEL);
            let scores = &mut scores[..task.count * stride];
            let queries = Queries { q: &attention.q[task.q..], stride: task.q_stride, count: task.count, d };
            for group in groups.clone() {
                scores_of_codes::<S, P>(simd, queries, &head, sizes, group, scores, &mut folded);
            }
            for (tokens, rows) in recent_parts(recent.clone(), sizes.recent) {
                let operands =
                    Operands { weights: head.recent[0], x: queries.q, x_stride: queries.stride, m: task.count, k: d };
                let mut out = Block::new(scores, stride).into_columns(tokens);
                (0..task.count).for_each(|m| out.row(m).fill(0.0));
                simd.dispatch(Gemm { operands, rows, out });
            }
            let mut totals = [0.0; QUERIES_AT_ONCE];
            for (i, (scores, total)) in scores.chunks_exact_mut(stride).zip(&mut totals).enumerate() {
                let position = task.position + i * task.step;
                let (seen, mut scale) = (first(position)..position + 1, attention.scale);
                if let Some(cap) = attention.soft_cap {
                    soft_cap_of::<S>(&mut scores[seen.clone()], scale, cap);
                    scale = 1.0;
                }
                *total = masked_exp(simd, &mut scores[..keys], seen, scale, None);
            }
            // SAFETY: no other task has these numbers, and this one takes its block once.
            let mut out = unsafe { out.block(task.rows, task.columns) };
            let mut out = if task.step == 0 { Block::new(out.row(0), d) } else { out.reborrow() };
            let values = Coded::<P> { head: &head, sizes, d, groups, recent, packing: PhantomData };
            // SAFETY: rows of scores have one for each token that groups and recent tokens are.
            unsafe { weighted_mean(simd, &values, scores, stride, &totals[..task.count], &mut out) };
        }
    }
}

/// The rows of the ring where some tokens are, in one part or two.
pub fn recent_parts(tokens: Range<usize>, room: usize) -> impl Iterator<Item = (Range<usize>, Range<usize>)> {
    let middle = (tokens.start / room + 1) * room;
    let parts = [tokens.start..tokens.end.min(middle), middle.min(tokens.end)..tokens.end];
    parts.into_iter().filter(|tokens| !tokens.is_empty()).map(move |tokens| {
        let start = tokens.start % room;
        (tokens.clone(), start..start + tokens.len())
    })
}

#[derive(Clone, Copy)]
struct Queries<'a> {
    q: &'a [f32],
    stride: usize,
    count: usize,
    d: usize,
}

/// The scores of a group's keys: of each, the products of its codes with the query times the steps, and what the query
/// gives with what codes of 0 mean.
#[inline(always)]
fn scores_of_codes<S: Simd, P: Packing<S>>(
    simd: S,
    queries: Queries<'_>,
    head: &Head<'_>,
    sizes: Sizes,
    group: usize,
    scores: &mut [f32],
    folded: &mut [f32],
) {
    const LANES: usize = 16;
    let Queries { q, stride: q_stride, count, d } = queries;
    let (stride, first) = (scores.len() / count, group * GROUP);
    let (folded, scales) = folded.split_at_mut(QUERIES_AT_ONCE * d);
    widen(simd, &head.key_scales[group * 2 * d..(group + 1) * 2 * d], scales);
    let (lows, steps) = scales.split_at_mut(d);
    lows.iter_mut().zip(&*steps).for_each(|(low, step)| *low += P::OFFSET * step);
    let mut start = [0.0; QUERIES_AT_ONCE];
    for (m, (folded, start)) in folded.chunks_exact_mut(d).zip(&mut start).take(count).enumerate() {
        let q = &q[m * q_stride..m * q_stride + d];
        folded.iter_mut().zip(q).zip(&*steps).for_each(|((folded, q), step)| *folded = q * step);
        let mut lanes = [0.0_f32; LANES];
        for (q, lows) in q.chunks(LANES).zip(lows.chunks(LANES)) {
            lanes.iter_mut().zip(q).zip(lows).for_each(|((lane, q), low)| *lane += q * low);
        }
        *start = lanes.iter().sum();
    }
    let bytes = &head.codes[0][group * sizes.codes..(group + 1) * sizes.codes];
    let (q, q_stride, tokens) = (&*folded, d, P::ROWS);
    let out = &mut scores[first..];
    simd.dispatch(KeyScores { q, q_stride, count, d, keys: P::First::of(bytes), tokens, start, out, stride });
    if const { P::ROWS < GROUP } {
        let out = &mut scores[first + P::ROWS..];
        simd.dispatch(KeyScores { q, q_stride, count, d, keys: P::Second::of(bytes), tokens, start, out, stride });
    }
}

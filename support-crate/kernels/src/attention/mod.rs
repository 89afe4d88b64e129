//! Attention of new tokens to the keys and values of a cache.

pub(crate) mod mean;
pub(crate) mod scores;
#[cfg(test)]
mod tests;

use std::ops::Range;

use half::f16;

use crate::elementwise::soft_cap_of;
use crate::isa::Isa;
use crate::matmul::Stored;
use crate::scratch::Scratch;
use crate::simd::{Dispatch, Kernel, Simd};
use crate::sizes;
use crate::softmax::masked_exp;
use crate::strided::{Block, Divided};
use crate::threads::ThreadScope;
use mean::{Rows, weighted_mean};
use scores::{KEY_PANEL, KeyScores, place_of_key};

/// Attention of T new tokens of each of B sequences, with H heads of D numbers, each G of which share their keys and
/// values (grouped-query attention; G is 1 where every head has its own).
///
/// Source: Vaswani et al. 2017, arXiv:1706.03762; Ainslie et al. 2023, arXiv:2305.13245 (groups).
#[derive(Debug, Clone, Copy)]
pub struct Attention<'a> {
    /// Queries: rows (B T) that begin with H heads of D and are `q_stride` apart.
    pub q: &'a [f32],
    /// From the beginning of a row of `q` to that of the next.
    pub q_stride: usize,
    /// Keys and values, (B, H / G, capacity, D) each, of which the first `past_len` + T of each head are filled. Keys lie
    /// in panels: see [`put_key`].
    pub kv: KeysValues<'a>,
    /// Tokens that `kv` has room for.
    pub capacity: usize,
    /// B
    pub batch: usize,
    /// T
    pub queries: usize,
    /// Tokens before the new ones.
    pub past_len: usize,
    /// H
    pub heads: usize,
    /// G
    pub group: usize,
    /// D
    pub head_dim: usize,
    /// Scores are multiplied by this.
    pub scale: f32,
    /// What they are bent towards then, as by [`soft_cap`](crate::soft_cap).
    pub soft_cap: Option<f32>,
    /// How many tokens back a token sees, itself included; see [`first_seen`].
    pub window: usize,
    /// `true` where a key is a token and not padding: (B, past_len + T); `None` if all are.
    pub key_mask: Option<&'a [bool]>,
}

/// Keys and values, as a cache stores them. They are multiplied in float32.
#[derive(Debug, Clone, Copy)]
pub enum KeysValues<'a> {
    /// 4 bytes a number.
    Float32 {
        /// Keys.
        k: &'a [f32],
        /// Values.
        v: &'a [f32],
    },
    /// 2 bytes a number.
    Float16 {
        /// Keys.
        k: &'a [f16],
        /// Values.
        v: &'a [f16],
    },
}

impl KeysValues<'_> {
    /// Numbers of keys, and of values.
    fn lens(&self) -> (usize, usize) {
        match self {
            Self::Float32 { k, v } => (k.len(), v.len()),
            Self::Float16 { k, v } => (k.len(), v.len()),
        }
    }
}

/// Puts the key of a token among the keys of its head, (capacity, D) in panels of 16 keys: the first number of each, then
/// the second of each, and so on; the last panel has fewer keys where `capacity` is no multiple of 16.
///
/// # Panics
/// A token beyond the capacity; keys that are not (capacity, D).
pub fn put_key<T: Copy>(keys: &mut [T], capacity: usize, token: usize, key: &[T]) {
    let numbers = key_of(keys.len(), capacity, token, key.len());
    numbers.zip(key).for_each(|(place, number)| keys[place] = *number);
}

/// The numbers of a key that was [put](put_key) there.
///
/// # Panics
/// As [`put_key`].
pub fn get_key<T: Copy>(keys: &[T], capacity: usize, token: usize, d: usize) -> impl Iterator<Item = T> {
    key_of(keys.len(), capacity, token, d).map(|place| keys[place])
}

/// Where a key's `d` numbers are.
fn key_of(len: usize, capacity: usize, token: usize, d: usize) -> impl Iterator<Item = usize> {
    sizes::check("keys", len, &[capacity, d]);
    assert!(token < capacity, "keys: room for {capacity}, not for token {token}");
    let (first, step) = place_of_key(token, capacity, d);
    (0..d).map(move |at| first + at * step)
}

/// Queries that are computed together; each key and value is then read once for all of them, or once for each four of
/// them where vectors are short.
pub(crate) const QUERIES_AT_ONCE: usize = 8;

/// Heads of a group that are computed together for one new token: fewer, so that more threads have some.
pub(crate) const HEADS_AT_ONCE: usize = 4;

/// Queries of one head of a sequence, or, when there is one new token, of the heads of one group.
pub(crate) struct Task {
    pub sequence: usize,
    pub kv_head: usize,
    /// Where the first query begins, and how far apart they are.
    pub q: usize,
    pub q_stride: usize,
    pub count: usize,
    /// Their part of the output (B T, H D).
    pub rows: Range<usize>,
    pub columns: Range<usize>,
    /// The position of the first query; the next one's is `step` further.
    pub position: usize,
    pub step: usize,
}

impl Attention<'_> {
    /// `out` (B T, H D).
    ///
    /// # Panics
    /// Sizes of 0, except `past_len`; heads that do not form whole groups; rows of queries that overlap; more tokens
    /// than there is room for; slices whose lengths contradict the sizes.
    pub fn compute(&self, scope: &ThreadScope, out: &mut [f32]) {
        self.check(out.len());
        let (isa, out) = (scope.isa(), &Divided::new(out, self.heads * self.head_dim));
        scope.split(self.tasks(), 1, self.work_of_a_task(), &|tasks| self.run(isa, tasks, out));
    }

    /// The same of several at once, each with its outputs. Threads share all of it, where each alone may be too little to
    /// share.
    ///
    /// # Panics
    /// As [`compute`](Self::compute), for any of them.
    pub fn compute_all(all: Vec<(Self, &mut [f32])>, scope: &ThreadScope) {
        let mut parts = Vec::with_capacity(all.len());
        for (attention, out) in all {
            attention.check(out.len());
            parts.push((attention, Divided::new(out, attention.heads * attention.head_dim)));
        }
        let counts: Vec<usize> = parts.iter().map(|(attention, _)| attention.tasks()).collect();
        let work = parts.iter().map(|(attention, _)| attention.work_of_a_task()).max().unwrap_or(0);
        let isa = scope.isa();
        scope.split_several(&counts, work, &|index, tasks| {
            let (attention, out) = &parts[index];
            attention.run(isa, tasks, out);
        });
    }

    fn tasks(&self) -> usize {
        self.batch * self.tasks_of_a_sequence()
    }

    /// Multiplications of a task.
    fn work_of_a_task(&self) -> usize {
        2 * (self.past_len + self.queries) * self.head_dim * QUERIES_AT_ONCE.min(self.queries.max(self.group))
    }

    fn run(&self, isa: Isa, tasks: Range<usize>, out: &Divided<'_, f32>) {
        match self.kv {
            KeysValues::Float32 { k, v } => isa.dispatch(Part { attention: self, k, v, tasks, out }),
            KeysValues::Float16 { k, v } => isa.dispatch(Part { attention: self, k, v, tasks, out }),
        }
    }

    /// Refuses sizes that contradict each other, the slices, or `out` numbers of output.
    fn check(&self, out: usize) {
        let Self { q, q_stride, capacity, batch, queries, past_len, heads, group, head_dim, window, .. } = *self;
        let sizes = [batch, queries, heads, group, head_dim, window];
        let names = ["batch", "queries", "heads", "group", "head_dim", "window"];
        for (name, size) in names.into_iter().zip(sizes) {
            assert!(size > 0, "attention with {name} = 0");
        }
        assert!(heads.is_multiple_of(group), "{heads} heads cannot be divided into groups of {group}");
        let keys = past_len.checked_add(queries).filter(|&keys| keys <= capacity);
        let keys = keys.unwrap_or_else(|| panic!("keys: room for {capacity}, not for {queries} after {past_len}"));
        let kv = sizes::product("keys", &[batch, heads / group, capacity, head_dim]);
        let (k, v) = self.kv.lens();
        assert!(k >= kv && v >= kv, "keys: {k} and {v} values, not {kv}");
        let (rows, width) = (sizes::product("queries", &[batch, queries]), sizes::product("heads", &[heads, head_dim]));
        assert!(
            q_stride >= width && sizes::hold_rows(q.len(), rows, q_stride, width),
            "queries: {}, not {rows} rows of {width} that begin {q_stride} apart",
            q.len()
        );
        if let Some(mask) = self.key_mask {
            sizes::check("mask", mask.len(), &[batch, keys]);
        }
        sizes::check("outputs", out, &[rows, width]);
    }

    fn tasks_of_a_sequence(&self) -> usize {
        match self.queries {
            1 => (self.heads / self.group) * self.group.div_ceil(HEADS_AT_ONCE),
            _ => self.heads * self.queries.div_ceil(QUERIES_AT_ONCE),
        }
    }

    /// Task `index`; no two have a number of the output in common.
    fn task(&self, index: usize) -> Task {
        let (sequence, index) = (index / self.tasks_of_a_sequence(), index % self.tasks_of_a_sequence());
        let d = self.head_dim;
        if self.queries == 1 {
            let per_group = self.group.div_ceil(HEADS_AT_ONCE);
            let (kv_head, first) = (index / per_group, index % per_group * HEADS_AT_ONCE);
            let (head, count) = (kv_head * self.group + first, HEADS_AT_ONCE.min(self.group - first));
            return Task {
                sequence,
                kv_head,
                q: sequence * self.q_stride + head * d,
                q_stride: d,
                count,
                rows: sequence..sequence + 1,
                columns: head * d..(head + count) * d,
                position: self.past_len,
                step: 0,
            };
        }
        let per_head = self.queries.div_ceil(QUERIES_AT_ONCE);
        let (head, first) = (index / per_head, index % per_head * QUERIES_AT_ONCE);
        let (row, count) = (sequence * self.queries + first, QUERIES_AT_ONCE.min(self.queries - first));
        Task {
            sequence,
            kv_head: head / self.group,
            q: row * self.q_stride + head * d,
            q_stride: self.q_stride,
            count,
            rows: row..row + count,
            columns: head * d..(head + 1) * d,
            position: self.past_len + first,
            step: 1,
        }
    }
}

/// The first key that the query at `position` sees if it sees `window` tokens of its sequence, given which
/// of the sequence's keys are tokens.
///
/// Padding does not count towards the window, wherever it lies: a prompt that was padded at its end leaves padding
/// between its tokens and those that follow.
///
/// # Panics
/// A window of 0; a position beyond the mask.
pub fn first_seen(mask: Option<&[bool]>, position: usize, window: usize) -> usize {
    assert!(window > 0, "the window must not be 0");
    if let Some(mask) = mask {
        assert!(position < mask.len(), "position {position} is out of range for a mask of {}", mask.len());
    }
    match mask {
        Some(mask) if window <= position => {
            (0..=position).rev().filter(|&key| mask[key]).take(window).last().unwrap_or(0)
        }
        _ => position.saturating_sub(window - 1),
    }
}

/// A thread's tasks.
struct Part<'a, W> {
    attention: &'a Attention<'a>,
    k: &'a [W],
    v: &'a [W],
    tasks: Range<usize>,
    out: &'a Divided<'a, f32>,
}

impl<S: Simd, W: Stored<S, f32>> Kernel<S> for Part<'_, W> {
    #[inline(always)]
    fn run(self, simd: S) {
        let Self { attention, k, v, tasks, out } = self;
        let Attention { past_len, queries, capacity, head_dim: d, .. } = *attention;
        let keys = past_len + queries;
        let stride = keys.next_multiple_of(KEY_PANEL);
        // Allocated for their final size, or each new key would need new memory.
        let mut scores = Scratch::<f32>::uninit(QUERIES_AT_ONCE * capacity.next_multiple_of(KEY_PANEL));
        for task in tasks.map(|index| attention.task(index)) {
            let past = (task.sequence * (attention.heads / attention.group) + task.kv_head) * capacity * d;
            let mask = attention.key_mask.map(|mask| &mask[task.sequence * keys..(task.sequence + 1) * keys]);
            let last = task.position + (task.count - 1) * task.step;
            let seen = first_seen(mask, task.position, attention.window)..last + 1;
            // Whole panels: of the last one, as many keys as there is room for.
            let first = seen.start - seen.start % KEY_PANEL;
            let end = seen.end.next_multiple_of(KEY_PANEL).min(capacity);
            simd.dispatch(KeyScores {
                q: &attention.q[task.q..],
                q_stride: task.q_stride,
                count: task.count,
                d,
                keys: &k[past + first * d..past + end * d],
                tokens: end - first,
                start: [0.0; QUERIES_AT_ONCE],
                out: &mut scores[first..],
                stride,
            });
            let mut totals = [0.0; QUERIES_AT_ONCE];
            for (i, (scores, total)) in scores.chunks_exact_mut(stride).zip(&mut totals).take(task.count).enumerate() {
                let position = task.position + i * task.step;
                let seen = first_seen(mask, position, attention.window)..position + 1;
                let mut scale = attention.scale;
                if let Some(cap) = attention.soft_cap {
                    soft_cap_of::<S>(&mut scores[seen.clone()], scale, cap);
                    scale = 1.0;
                }
                *total = masked_exp(simd, &mut scores[..keys], seen, scale, mask);
            }
            // SAFETY: no other task has these numbers, and this one takes its block once.
            let mut out = unsafe { out.block(task.rows, task.columns) };
            let mut out = if task.step == 0 { Block::new(out.row(0), d) } else { out.reborrow() };
            let values = Rows { values: &v[past..past + keys * d], d, seen };
            // SAFETY: rows of scores have one for each of `keys`.
            unsafe { weighted_mean(simd, &values, &scores, stride, &totals[..task.count], &mut out) };
        }
    }
}

//! Attention of new tokens to the keys and values of a cache.

use std::ops::Range;

use super::elementwise;
use super::matmul::{Operands, product};
use super::pool::Shares;
use super::simd::{InstructionSet, Simd, dispatch};

/// Attention of T new tokens of each of B sequences, with H heads of D numbers of which H / G share
/// their keys and values (grouped-query attention; G is 1 where every head has its own).
///
/// Source: Vaswani et al. 2017, arXiv:1706.03762; Ainslie et al. 2023, arXiv:2305.13245 (groups).
#[derive(Clone, Copy)]
pub(in crate::model) struct Attention<'a> {
    /// Queries: rows (B T) that begin with H heads of D and are `q_stride` apart.
    pub q: &'a [f32],
    pub q_stride: usize,
    /// Keys and values, (B, H / G, capacity, D), of which the first `past_len` + T are there.
    pub k: &'a [f32],
    pub v: &'a [f32],
    pub capacity: usize,
    pub batch: usize,
    pub queries: usize,
    pub past_len: usize,
    pub heads: usize,
    /// G
    pub group: usize,
    /// D
    pub head_dim: usize,
    /// Scores are multiplied by this.
    pub scale: f32,
    /// How many tokens back a token sees, itself included; see [`first_seen`].
    pub window: usize,
    /// `true` where a key is a token and not padding: (B, past_len + T); none if all are.
    pub key_mask: Option<&'a [bool]>,
}

/// Queries that are computed together; each key and value is then read once for all of them.
const TOGETHER: usize = 4;

/// Queries of one head of a sequence, or, when there is one new token, of the heads of one group.
struct Task {
    sequence: usize,
    kv_head: usize,
    /// Where the first query, and its result, begin.
    q: usize,
    out: usize,
    count: usize,
    q_stride: usize,
    out_stride: usize,
    /// The position of the first query; the next one's is `step` further.
    position: usize,
    step: usize,
}

impl Attention<'_> {
    /// `out` (B T, H D).
    pub fn compute(&self, shares: &Shares, out: &mut [f32]) {
        self.compute_with(InstructionSet::best(), shares, out);
    }

    fn compute_with(&self, set: InstructionSet, shares: &Shares, out: &mut [f32]) {
        let (rows, keys, width) = (self.batch * self.queries, self.past_len + self.queries, self.heads * self.head_dim);
        let kv_len = self.batch * (self.heads / self.group) * self.capacity * self.head_dim;
        assert!(self.q.len() >= (rows - 1) * self.q_stride + width && self.q_stride >= width, "queries");
        assert!(self.k.len() >= kv_len && self.v.len() >= kv_len && keys <= self.capacity, "keys and values");
        assert!(self.key_mask.is_none_or(|mask| mask.len() == self.batch * keys), "mask");
        assert_eq!(out.len(), rows * width, "outputs");
        let place = Place(out.as_mut_ptr());
        let tasks = self.batch * self.tasks_of_a_sequence();
        let work = 2 * keys * self.head_dim * TOGETHER.min(self.queries.max(self.group));
        shares.split(tasks, 1, work, &|part| {
            let (attention, place) = (self, &place);
            // SAFETY: the shapes were checked above, and no two tasks write the same part of `out`.
            dispatch!(set, attend(attention: &Attention<'_>, part: Range<usize>, place: &Place));
        });
    }

    fn tasks_of_a_sequence(&self) -> usize {
        match self.queries {
            1 => (self.heads / self.group) * self.group.div_ceil(TOGETHER),
            _ => self.heads * self.queries.div_ceil(TOGETHER),
        }
    }

    fn task(&self, index: usize) -> Task {
        let (sequence, index) = (index / self.tasks_of_a_sequence(), index % self.tasks_of_a_sequence());
        let (d, width) = (self.head_dim, self.heads * self.head_dim);
        if self.queries == 1 {
            let per_group = self.group.div_ceil(TOGETHER);
            let (kv_head, first) = (index / per_group, index % per_group * TOGETHER);
            let head = kv_head * self.group + first;
            return Task {
                sequence,
                kv_head,
                q: sequence * self.q_stride + head * d,
                out: sequence * width + head * d,
                count: TOGETHER.min(self.group - first),
                q_stride: d,
                out_stride: d,
                position: self.past_len,
                step: 0,
            };
        }
        let per_head = self.queries.div_ceil(TOGETHER);
        let (head, first) = (index / per_head, index % per_head * TOGETHER);
        let row = sequence * self.queries + first;
        Task {
            sequence,
            kv_head: head / self.group,
            q: row * self.q_stride + head * d,
            out: row * width + head * d,
            count: TOGETHER.min(self.queries - first),
            q_stride: self.q_stride,
            out_stride: width,
            position: self.past_len + first,
            step: 1,
        }
    }
}

/// The first key that the query at `position` sees if it sees `window` tokens of its sequence, given which
/// of the sequence's keys are tokens.
///
/// Padding takes nothing of the window, wherever it lies: a prompt that was filled up at its end leaves it
/// between its tokens and those that follow.
pub(in crate::model) fn first_seen(mask: Option<&[bool]>, position: usize, window: usize) -> usize {
    match mask {
        Some(mask) if window <= position => {
            (0..=position).rev().filter(|&key| mask[key]).take(window).last().unwrap_or(0)
        }
        _ => (position + 1).saturating_sub(window),
    }
}

/// Where the result goes; several threads write to different parts.
struct Place(*mut f32);

// SAFETY: each task writes its own part.
unsafe impl Sync for Place {}

/// # Safety
/// The shapes of `attention` hold, and nobody else writes what these tasks write.
#[inline(always)]
unsafe fn attend<S: Simd>(attention: &Attention<'_>, tasks: Range<usize>, out: &Place) {
    let keys = attention.past_len + attention.queries;
    let d = attention.head_dim;
    let mut scores = vec![0.0_f32; TOGETHER * keys];
    for task in tasks.map(|index| attention.task(index)) {
        let past = (task.sequence * (attention.heads / attention.group) + task.kv_head) * attention.capacity * d;
        let mask = attention.key_mask.map(|mask| &mask[task.sequence * keys..(task.sequence + 1) * keys]);
        let last = task.position + (task.count - 1) * task.step;
        let first = first_seen(mask, task.position, attention.window);
        scores[..task.count * keys].fill(0.0);
        // SAFETY: the caller's promise: the queries, and the keys up to `last`, are there.
        unsafe {
            let operands = Operands {
                weights: attention.k.as_ptr().add(past),
                x: attention.q.as_ptr().add(task.q),
                x_stride: task.q_stride,
                m: task.count,
                k: d,
                out: scores.as_mut_ptr(),
                out_stride: keys,
            };
            product::<S, f32>(&operands, first..last + 1);
        }
        for (i, scores) in scores.chunks_exact_mut(keys).take(task.count).enumerate() {
            let position = task.position + i * task.step;
            let seen = first_seen(mask, position, attention.window)..position + 1;
            elementwise::exp_of_visible(scores, seen, attention.scale, mask);
        }
        // SAFETY: as above, for values and outputs.
        unsafe {
            let values = attention.v.as_ptr().add(past);
            let out = out.0.add(task.out);
            match task.count {
                1 => weighted_mean::<S, 1>(&scores, keys, values, d, first..last + 1, out, task.out_stride),
                2 => weighted_mean::<S, 2>(&scores, keys, values, d, first..last + 1, out, task.out_stride),
                3 => weighted_mean::<S, 3>(&scores, keys, values, d, first..last + 1, out, task.out_stride),
                _ => weighted_mean::<S, 4>(&scores, keys, values, d, first..last + 1, out, task.out_stride),
            }
        }
    }
}

/// `out[m, d] = sum_s scores[m, s] values[s, d] / sum_s scores[m, s]`, or 0 where all scores are 0.
///
/// Both sums go through the keys in order, one by one: keys that are padding add exactly 0, and so the
/// result does not depend on where padding is. (Unless a value is infinite or NaN: that is seen by all queries
/// that are computed together with one that sees it.)
///
/// # Safety
/// `values` has rows of `d` for all of `keys`, `out` has `M` rows of `d`, `out_stride` apart.
#[inline(always)]
unsafe fn weighted_mean<S: Simd, const M: usize>(
    scores: &[f32],
    scores_stride: usize,
    values: *const f32,
    d: usize,
    keys: Range<usize>,
    out: *mut f32,
    out_stride: usize,
) {
    /// Vectors of a row that are computed at once.
    const WIDE: usize = 4;
    let mut column = 0;
    while column < d {
        let left = d - column;
        // SAFETY: the caller's promise; `column` plus what is read is at most `d`.
        unsafe {
            let mut totals = [S::zero(); M];
            let mut sums = [[S::zero(); WIDE]; M];
            let wide = left >= WIDE * S::LANES;
            for s in keys.clone() {
                let row = values.add(s * d + column);
                let mut value = [S::zero(); WIDE];
                if wide {
                    for (j, value) in value.iter_mut().enumerate() {
                        *value = S::load(row.add(j * S::LANES));
                    }
                } else if left >= S::LANES {
                    value[0] = S::load(row);
                } else {
                    value[0] = S::load_part(row, left);
                }
                for m in 0..M {
                    let score = S::splat(*scores.get_unchecked(m * scores_stride + s));
                    totals[m] = S::mul_add(score, S::splat(1.0), totals[m]);
                    for j in 0..WIDE {
                        sums[m][j] = S::mul_add(score, value[j], sums[m][j]);
                    }
                }
            }
            let (vectors, count) = if wide { (WIDE, WIDE * S::LANES) } else { (1, left.min(S::LANES)) };
            for m in 0..M {
                let total = S::first(totals[m]);
                let factor = S::splat(if total == 0.0 { 0.0 } else { 1.0 / total });
                for (j, sum) in sums[m].iter().enumerate().take(vectors) {
                    let result = S::mul_add(*sum, factor, S::zero());
                    let to = out.add(m * out_stride + column + j * S::LANES);
                    if count < S::LANES { S::store_part(result, to, count) } else { S::store(result, to) }
                }
            }
            column += count;
        }
    }
}

#[cfg(test)]
#[path = "attention_tests.rs"]
mod tests;

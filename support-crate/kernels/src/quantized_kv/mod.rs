//! Keys and values of which old ones are integers of 8 or 4 bits.
//!
//! Keys share a scale by channel, among 32 tokens: some channels of keys are large in all tokens. Values share one by
//! token, among 32 channels. A scale is the lowest number and a step, both float16; codes count steps from there. The
//! last 32 to 63 tokens before the one that looks are float16: what a query at position p sees as codes is what lies
//! before `32 floor((p - 32) / 32)`, see [`QuantizedKv::coded_before`]. As that depends on p alone, it does not matter
//! whether tokens came together or one by one.
//!
//! Source: Liu et al. 2024, "KIVI", arXiv:2402.02750, which has groups of 32 and keeps the last 128 tokens of keys, and
//! of values, in float16. There, a prompt sees all of itself in float16 while it is read, and its codes only afterwards.

mod attention;
mod codes;
mod mean;
mod quantize;
#[cfg(test)]
mod tests;

use std::ops::Range;

use half::f16;

use crate::elementwise::to_f16;
use crate::threads::ThreadScope;
use crate::zeros::zeros;
pub use attention::QuantizedAttention;

/// Tokens whose keys share a scale in each channel, and channels whose values share one.
const GROUP: usize = 32;

/// The last tokens that any query sees in float16, at least.
const WINDOW: usize = 32;

/// Tokens that are kept in float16: those that a step of [`MOST`](QuantizedKv::MOST) tokens needs.
const RECENT: usize = 128;

/// How many bits store a code of keys and values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KvBits {
    /// From 0 to 15.
    Four,
    /// From 0 to 255.
    Eight,
}

/// Some tokens of a sequence that follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// Of the cache.
    pub sequence: usize,
    /// The position of the first token in its sequence. Padding has none.
    pub position: usize,
    /// The row of the first token among queries, keys, values and outputs.
    pub row: usize,
    /// How many there are; at least 1, at most [`QuantizedKv::MOST`].
    pub count: usize,
}

/// Keys and values of one layer, for several sequences.
#[derive(Debug)]
pub struct QuantizedKv {
    bits: KvBits,
    batch: usize,
    heads: usize,
    capacity: usize,
    head_dim: usize,
    /// Keys' and values' codes: (sequence, head, group, bytes); see [`codes`].
    codes: [Vec<u8>; 2],
    /// (sequence, head, group, 2, D): the lowest key of each channel, then the steps.
    key_scales: Vec<f16>,
    /// (sequence, head, group, part, 2, 32): the lowest value of each token, then the steps.
    value_scales: Vec<f16>,
    /// Keys and values of the last tokens, token p in row p modulo the number of rows: (sequence, head, rows, D).
    recent: [Vec<f16>; 2],
}

/// How many numbers a head of a sequence has, of each kind.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    groups: usize,
    /// Bytes of the codes of a group, and its scales.
    codes: usize,
    key_scales: usize,
    value_scales: usize,
    /// Rows of recent tokens.
    recent: usize,
}

impl Sizes {
    fn of(bits: KvBits, capacity: usize, head_dim: usize) -> Option<Self> {
        let numbers = head_dim.checked_mul(GROUP)?;
        Some(Self {
            groups: QuantizedKv::coded_before(capacity.saturating_sub(1)) / GROUP,
            codes: if bits == KvBits::Eight { numbers } else { numbers / 2 },
            key_scales: 2 * head_dim,
            value_scales: 2 * GROUP * head_dim.div_ceil(GROUP),
            recent: capacity.min(RECENT),
        })
    }
}

/// What one head of a sequence has.
struct Head<'a> {
    codes: [&'a [u8]; 2],
    key_scales: &'a [f16],
    value_scales: &'a [f16],
    recent: [&'a [f16]; 2],
}

impl QuantizedKv {
    /// Tokens that may be added to a sequence at once, and how many of the last ones may be replaced at any time.
    pub const MOST: usize = RECENT - WINDOW - GROUP;

    /// The tokens before this one are codes to the query at `position`.
    pub fn coded_before(position: usize) -> usize {
        position.saturating_sub(WINDOW) / GROUP * GROUP
    }

    /// Whether a sequence of which `longest` tokens have been added can go on after its first `tokens`: the tokens that
    /// the next query wants in float16 are still there.
    pub fn can_go_on(longest: usize, tokens: usize) -> bool {
        tokens == 0 || Self::coded_before(tokens).saturating_add(RECENT) >= longest
    }

    /// The fewest tokens, except for 0, after which it [can go on](Self::can_go_on).
    pub fn fewest_to_go_on(longest: usize) -> usize {
        match longest.saturating_sub(RECENT) {
            0 => 0,
            gone => gone.div_ceil(GROUP) * GROUP + WINDOW,
        }
    }

    /// Room for `batch` sequences of `capacity` tokens with `heads` heads of `head_dim` numbers; `None` if there is not
    /// enough memory.
    ///
    /// # Panics
    /// A size of 0.
    pub fn new(bits: KvBits, batch: usize, heads: usize, capacity: usize, head_dim: usize) -> Option<Self> {
        let of = [batch, heads, capacity, head_dim];
        assert!(!of.contains(&0), "keys and values of {of:?} sequences, heads, tokens and numbers");
        let sizes = Sizes::of(bits, capacity, head_dim)?;
        let units = batch.checked_mul(heads)?;
        let groups = units.checked_mul(sizes.groups)?;
        let recent = units.checked_mul(sizes.recent)?.checked_mul(head_dim)?;
        let codes = groups.checked_mul(sizes.codes)?;
        Some(Self {
            bits,
            batch,
            heads,
            capacity,
            head_dim,
            codes: [zeros(codes)?, zeros(codes)?],
            key_scales: zeros(groups.checked_mul(sizes.key_scales)?)?,
            value_scales: zeros(groups.checked_mul(sizes.value_scales)?)?,
            recent: [zeros(recent)?, zeros(recent)?],
        })
    }

    /// Bytes that it takes.
    pub fn bytes(&self) -> usize {
        let numbers = self.key_scales.len() + self.value_scales.len() + 2 * self.recent[0].len();
        2 * self.codes[0].len() + numbers * size_of::<f16>()
    }

    fn sizes(&self) -> Sizes {
        Sizes::of(self.bits, self.capacity, self.head_dim).expect("as large as memory that is there")
    }

    /// Head `unit`, counted through the sequences.
    fn head(&self, unit: usize) -> Head<'_> {
        let (sizes, d) = (self.sizes(), self.head_dim);
        let of_groups = |len: usize| unit * sizes.groups * len..(unit + 1) * sizes.groups * len;
        let recent = unit * sizes.recent * d..(unit + 1) * sizes.recent * d;
        let [keys, values] = &self.recent;
        Head {
            codes: self.codes.each_ref().map(|codes| &codes[of_groups(sizes.codes)]),
            key_scales: &self.key_scales[of_groups(sizes.key_scales)],
            value_scales: &self.value_scales[of_groups(sizes.value_scales)],
            recent: [&keys[recent.clone()], &values[recent]],
        }
    }

    /// Takes the keys of some runs, which lie at `start` of each row of `rows` (M, width), and the values after them;
    /// what was at these positions and after them is forgotten. Groups that are complete now become codes.
    ///
    /// # Panics
    /// Runs that the cache, or `rows`, has no room for, or of more than [`MOST`](Self::MOST) tokens.
    pub fn append(&mut self, scope: &ThreadScope, runs: &[Run], rows: &[f32], width: usize, start: usize) {
        let (d, heads, room) = (self.head_dim, self.heads, self.sizes().recent);
        let needed = (2_usize.checked_mul(heads)).and_then(|heads| heads.checked_mul(d)?.checked_add(start));
        assert!(
            width > 0 && needed.is_some_and(|needed| needed <= width),
            "rows: {width} numbers wide, keys at {start}"
        );
        self.check(runs, rows.len() / width);
        for run in runs {
            for i in 0..run.count {
                let row = &rows[(run.row + i) * width..(run.row + i + 1) * width];
                for (of, recent) in self.recent.iter_mut().enumerate() {
                    for head in 0..heads {
                        let from = start + (of * heads + head) * d;
                        let to = ((run.sequence * heads + head) * room + (run.position + i) % room) * d;
                        to_f16(&row[from..from + d], &mut recent[to..to + d]);
                    }
                }
            }
        }
        self.quantize(scope, runs);
    }

    /// Keys and values of tokens of a sequence of which `longest` have been added, in float16: (heads, tokens, D) each.
    /// [Appended](Self::append) to another sequence, at the same positions, they become the same codes. `None` if they are
    /// codes only by now.
    ///
    /// # Panics
    /// A sequence or tokens that there are not.
    pub fn recent(&self, sequence: usize, tokens: Range<usize>, longest: usize) -> Option<[Vec<f16>; 2]> {
        assert!(sequence < self.batch, "sequences: {sequence} of {}", self.batch);
        assert!(
            tokens.start <= tokens.end && tokens.end <= longest && longest <= self.capacity,
            "tokens: {tokens:?} of {longest}, with room for {}",
            self.capacity
        );
        let (room, d) = (self.sizes().recent, self.head_dim);
        if tokens.start.saturating_add(room) < longest {
            return None;
        }
        let of_head = |head: usize| {
            let first = (sequence * self.heads + head) * room;
            tokens.clone().map(move |token| (first + token % room) * d)
        };
        let rows = || (0..self.heads).flat_map(of_head);
        Some(self.recent.each_ref().map(|recent| rows().flat_map(|row| &recent[row..row + d]).copied().collect()))
    }

    /// Makes what one sequence has that of another, too: `tokens` tokens.
    ///
    /// # Panics
    /// Sequences that there are not.
    pub fn copy(&mut self, from: usize, to: usize, tokens: usize) {
        assert!(from < self.batch && to < self.batch, "sequences: {from} and {to} of {}", self.batch);
        let (sizes, d) = (self.sizes(), self.head_dim);
        let groups = sizes.groups.min(tokens.div_ceil(GROUP));
        for head in 0..self.heads {
            let (from, to) = (from * self.heads + head, to * self.heads + head);
            let place = |len: usize, used: usize| (from * len..from * len + used, to * len);
            for codes in &mut self.codes {
                let (from, to) = place(sizes.groups * sizes.codes, groups * sizes.codes);
                codes.copy_within(from, to);
            }
            for (scales, len) in
                [(&mut self.key_scales, sizes.key_scales), (&mut self.value_scales, sizes.value_scales)]
            {
                let (from, to) = place(sizes.groups * len, groups * len);
                scales.copy_within(from, to);
            }
            for recent in &mut self.recent {
                let (from, to) = place(sizes.recent * d, sizes.recent * d);
                recent.copy_within(from, to);
            }
        }
    }

    /// Refuses runs that overlap, or that the cache or `rows` rows do not have.
    fn check(&self, runs: &[Run], rows: usize) {
        let mut next = 0;
        for &Run { sequence, position, row, count } in runs {
            assert!((1..=Self::MOST).contains(&count), "runs: {count} tokens, not 1 to {}", Self::MOST);
            assert!(sequence < self.batch, "runs: sequence {sequence} of {}", self.batch);
            let end = position.checked_add(count).filter(|&end| end <= self.capacity);
            assert!(end.is_some(), "runs: room for {}, not for {count} after {position}", self.capacity);
            let end = row.checked_add(count).filter(|&end| row >= next && end <= rows);
            next = end.unwrap_or_else(|| panic!("runs: {count} rows from {row} on, of {rows}, after {next}"));
        }
    }
}

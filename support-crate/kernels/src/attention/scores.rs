//! Scores of queries with keys.

use crate::matmul::Stored;
use crate::simd::{Kernel, Simd};
use crate::sizes::hold_rows;

use super::QUERIES_AT_ONCE;

/// Keys of a panel: a line of the cache in float32.
pub const KEY_PANEL: usize = 16;

/// Panels that all queries are multiplied with before the next ones: those of 64 numbers a key fit in the first-level
/// cache.
const PANELS_AT_ONCE: usize = 4;

/// Where the first number of a key is in the keys of its head, (capacity, D) in panels, and how far apart its numbers
/// are.
///
/// A panel has 16 keys: the first number of each, then the second of each, and so on. The last one has fewer where
/// `capacity` is no multiple of 16. A vector of such numbers by one number of a query is a step towards as many scores,
/// none of which is a sum across lanes.
#[inline(always)]
pub fn place_of_key(token: usize, capacity: usize, d: usize) -> (usize, usize) {
    let first = token - token % KEY_PANEL;
    (first * d + token % KEY_PANEL, KEY_PANEL.min(capacity - first))
}

/// The products of some queries of D numbers with the keys of some whole panels, the last of which may have fewer keys.
pub struct KeyScores<'a, W> {
    /// Queries, `q_stride` apart.
    pub q: &'a [f32],
    pub q_stride: usize,
    pub count: usize,
    pub d: usize,
    /// Panels of keys, one after the other.
    pub keys: &'a [W],
    /// How many keys there are.
    pub tokens: usize,
    /// What each query's scores begin with.
    pub start: [f32; QUERIES_AT_ONCE],
    /// A row for each query, `stride` apart, with room for whole panels. Scores of keys that a panel lacks are of no
    /// meaning.
    pub out: &'a mut [f32],
    pub stride: usize,
}

impl<S: Simd, W: Stored<S, f32>> Kernel<S> for KeyScores<'_, W> {
    #[inline(always)]
    fn run(mut self, simd: S) {
        let Self { q, q_stride, count, d, keys, tokens, stride, .. } = self;
        assert!(count <= QUERIES_AT_ONCE && hold_rows(q.len(), count, q_stride, d), "queries");
        assert!(hold_rows(keys.len(), tokens, d, d), "keys");
        assert!(hold_rows(self.out.len(), count, stride, tokens.next_multiple_of(KEY_PANEL)), "scores");
        let whole = tokens / KEY_PANEL;
        let mut panel = 0;
        while panel < whole {
            let panels = PANELS_AT_ONCE.min(whole - panel);
            let mut m = 0;
            while m < count {
                // SAFETY: there are so many panels and queries left, and rows of scores, as was checked.
                m += unsafe { self.some::<S>(simd, m, panel, panels) };
            }
            panel += panels;
        }
        if !tokens.is_multiple_of(KEY_PANEL) {
            for m in 0..count {
                // SAFETY: there is such a query; the last panel has some keys, and rows of scores room for all of it.
                unsafe { self.part_of_a_panel(simd, m) };
            }
        }
    }
}

impl<W> KeyScores<'_, W> {
    /// Scores of some queries from `m` on, with `panels` panels from `panel` on; returns of how many queries.
    ///
    /// # Safety
    /// There are so many panels, and a query `m`.
    #[inline(always)]
    unsafe fn some<S: Simd>(&mut self, simd: S, m: usize, panel: usize, panels: usize) -> usize
    where
        W: Stored<S, f32>,
    {
        let left = self.count - m;
        // As many sums as there are registers for, with their factors; the constants decide while compiling.
        // SAFETY: the caller's promise, and so many queries are left.
        unsafe {
            if const { S::LANES == 16 } {
                match left {
                    8.. => self.tiles::<S, 8, 2, 1>(simd, m, panel, panels),
                    4.. => self.tiles::<S, 4, 4, 1>(simd, m, panel, panels),
                    3 => self.tiles::<S, 3, 4, 1>(simd, m, panel, panels),
                    2 => self.tiles::<S, 2, 4, 1>(simd, m, panel, panels),
                    _ => self.tiles::<S, 1, 4, 1>(simd, m, panel, panels),
                }
            } else if const { S::LANES == 8 } {
                match left {
                    4.. => self.tiles::<S, 4, 2, 2>(simd, m, panel, panels),
                    3 => self.tiles::<S, 3, 2, 2>(simd, m, panel, panels),
                    2 => self.tiles::<S, 2, 4, 2>(simd, m, panel, panels),
                    _ => self.tiles::<S, 1, 8, 2>(simd, m, panel, panels),
                }
            } else if const { S::LANES == 4 } {
                match left {
                    4.. => self.tiles::<S, 4, 4, 4>(simd, m, panel, panels),
                    3 => self.tiles::<S, 3, 4, 4>(simd, m, panel, panels),
                    2 => self.tiles::<S, 2, 4, 4>(simd, m, panel, panels),
                    _ => self.tiles::<S, 1, 8, 4>(simd, m, panel, panels),
                }
            } else {
                const { assert!(S::LANES == 1 || S::LANES >= 4, "vectors of another length") };
                self.tiles::<S, 1, 16, 16>(simd, m, panel, panels)
            }
        }
    }

    /// Goes through some panels by `V` vectors, then by one panel, which has `ONE` of them; returns `M`.
    ///
    /// # Safety
    /// There are so many panels, and `M` queries from `m` on.
    #[inline(always)]
    unsafe fn tiles<S: Simd, const M: usize, const V: usize, const ONE: usize>(
        &mut self,
        simd: S,
        m: usize,
        mut panel: usize,
        panels: usize,
    ) -> usize
    where
        W: Stored<S, f32>,
    {
        let end = panel + panels;
        // SAFETY: the caller's promise.
        unsafe {
            while panel + V / ONE <= end {
                self.tile::<S, M, V, ONE>(simd, m, panel);
                panel += V / ONE;
            }
            while const { V > ONE } && panel < end {
                self.tile::<S, M, ONE, ONE>(simd, m, panel);
                panel += 1;
            }
        }
        M
    }

    /// `M` queries by `V` vectors of keys: `V / ONE` panels.
    ///
    /// # Safety
    /// They are there, and have room for their scores.
    #[expect(clippy::needless_range_loop, reason = "rows and columns of a tile read best by their numbers")]
    #[inline(always)]
    unsafe fn tile<S: Simd, const M: usize, const V: usize, const ONE: usize>(
        &mut self,
        simd: S,
        m: usize,
        panel: usize,
    ) where
        W: Stored<S, f32>,
    {
        let (d, q_stride, stride) = (self.d, self.q_stride, self.stride);
        let mut sums = [[simd.zero(); V]; M];
        for i in 0..M {
            sums[i] = [simd.splat(self.start[m + i]); V];
        }
        // SAFETY: a panel has 16 numbers for each of `d`, which are `ONE` vectors; the rest is the caller's promise.
        unsafe {
            let q = self.q.as_ptr().add(m * q_stride);
            let keys = self.keys.as_ptr().add(panel * KEY_PANEL * d);
            for at in 0..d {
                let mut key = [simd.zero(); V];
                for j in 0..V {
                    let of_panel = keys.add((j / ONE) * KEY_PANEL * d + (j % ONE) * S::LANES);
                    key[j] = W::load(simd, of_panel.add(at * KEY_PANEL));
                    // A few queries do little with each key, which comes from main memory.
                    if const { M <= 4 } {
                        simd.prefetch(of_panel.wrapping_add((at + V / ONE * d) * KEY_PANEL));
                    }
                }
                for i in 0..M {
                    let number = simd.splat(*q.add(i * q_stride + at));
                    for j in 0..V {
                        sums[i][j] = simd.mul_add(number, key[j], sums[i][j]);
                    }
                }
            }
            let out = self.out.as_mut_ptr().add(m * stride + panel * KEY_PANEL);
            for i in 0..M {
                for j in 0..V {
                    simd.store(sums[i][j], out.add(i * stride + j * S::LANES));
                }
            }
        }
    }

    /// Scores of query `m` with the keys of the last panel, which are less than 16.
    ///
    /// # Safety
    /// They are there, and have room for the scores of 16.
    #[inline(always)]
    unsafe fn part_of_a_panel<S: Simd>(&mut self, simd: S, m: usize)
    where
        W: Stored<S, f32>,
    {
        let (d, whole, width) = (self.d, self.tokens / KEY_PANEL * KEY_PANEL, self.tokens % KEY_PANEL);
        // SAFETY: the panel has `width` numbers for each of `d`; the rest is the caller's promise.
        unsafe {
            let (q, keys) = (self.q.as_ptr().add(m * self.q_stride), self.keys.as_ptr().add(whole * d));
            let out = self.out.as_mut_ptr().add(m * self.stride + whole);
            let mut first = 0;
            while first < width {
                let mut sums = simd.splat(self.start[m]);
                for at in 0..d {
                    let of_tokens = keys.add(at * width + first);
                    // What follows, the next numbers of other keys, may be read too, and ends up in scores of keys that
                    // are not there.
                    let left = (d - at) * width - first;
                    let key =
                        if left >= S::LANES { W::load(simd, of_tokens) } else { W::load_part(simd, of_tokens, left) };
                    sums = simd.mul_add(simd.splat(*q.add(at)), key, sums);
                }
                simd.store(sums, out.add(first));
                first += S::LANES;
            }
        }
    }
}

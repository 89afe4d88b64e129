//! Arithmetic on slices for the CPU: what decoding one token needs, without per-operation overhead.
//!
//! Decoding multiplies every weight with one number and is limited by how fast the weights can be
//! read, so a matrix is stored with one row for each output, rows are read front to back, and the rows
//! are divided among the threads. candle's own product of a matrix and a single vector uses one thread.
//!
//! Each kernel is one plain function, compiled twice: for any processor, and for x86 processors with
//! AVX2 and FMA, chosen at run time.

use std::sync::Mutex;

use half::bf16;

use super::pool::pool;
use super::threads::threads;

/// A weight as it is stored.
pub(super) trait Element: Copy + Send + Sync {
    /// The weight as the number it is computed with.
    fn widen(self) -> f32;
}

impl Element for f32 {
    #[inline(always)]
    fn widen(self) -> f32 {
        self
    }
}

impl Element for bf16 {
    /// A bfloat16 is the upper half of a float32.
    #[inline(always)]
    fn widen(self) -> f32 {
        f32::from_bits(u32::from(self.to_bits()) << 16)
    }
}

/// Defines a function that runs `$body` as compiled for the processor at hand. `$body` takes a constant
/// that says whether fused multiply-add is an instruction (else it would be a slow call).
macro_rules! kernel {
    ($(#[$doc:meta])* fn $name:ident $(<$w:ident>)? ($($arg:ident: $ty:ty),* $(,)?) = $body:ident) => {
        $(#[$doc])*
        fn $name $(<$w: Element>)? ($($arg: $ty),*) {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,fma")]
                fn avx2 $(<$w: Element>)? ($($arg: $ty),*) {
                    $body::<true $(, $w)?>($($arg),*)
                }
                if std::is_x86_feature_detected!("avx2") && std::is_x86_feature_detected!("fma") {
                    // SAFETY: the processor has both features, as was just asked.
                    return unsafe { avx2($($arg),*) };
                }
            }
            $body::<false $(, $w)?>($($arg),*)
        }
    };
}

/// A part with fewer multiplications than this is done before another thread could take it over.
const WORTH_HANDING_OVER: usize = 16 * 1024;

/// More parts than threads, so that a thread that is held up is not waited for long.
const PARTS_PER_THREAD: usize = 4;

/// `out[n, m] = sum_k weight[n, k] * x[m, k] + bias[n]`.
///
/// `weight` (N, K), `x` (M, K), `bias` (N) or empty, `out` (N, M): M is last, so that each thread's
/// part of `out` is one piece.
pub(super) fn matvec<W: Element>(weight: &[W], x: &[f32], bias: &[f32], k: usize, out: &mut [f32]) {
    let m = x.len() / k;
    split(out, m, weight.len() * m, |first, part| {
        let rows = part.len() / m;
        let bias = if bias.is_empty() { bias } else { &bias[first..first + rows] };
        rows_times(&weight[first * k..(first + rows) * k], x, bias, k, part);
    });
}

/// `x[i] / (1 + exp(-2u))` with `u = sqrt(2 / pi) * (x + 0.044715 x^3)`, which is the same as the usual
/// `x / 2 * (1 + tanh(u))`.
///
/// Source: Hendrycks and Gimpel 2016, arXiv:1606.08415; `gelu_new` in transformers.
pub(super) fn gelu_new(x: &mut [f32]) {
    let work = x.len() * 16;
    split(x, 1, work, |_, part| gelu_part(part));
}

/// `x / (1 + exp(-x))`.
pub(super) fn silu(x: &mut [f32]) {
    let work = x.len() * 16;
    split(x, 1, work, |_, part| silu_part(part));
}

/// `function` of each element, for functions that are rarely needed.
pub(super) fn map(x: &mut [f32], function: impl Fn(f32) -> f32 + Sync) {
    let work = x.len() * 16;
    split(x, 1, work, |_, part| part.iter_mut().for_each(|x| *x = function(*x)));
}

/// Adds `y` to `x`, or to each row of `x` that has the length of `y`.
pub(super) fn add(x: &mut [f32], y: &[f32]) {
    let work = x.len();
    let width = y.len();
    split(x, 1, work, |first, part| {
        let mut done = 0;
        while done < part.len() {
            let column = (first + done) % width;
            let count = (width - column).min(part.len() - done);
            for (x, y) in part[done..done + count].iter_mut().zip(&y[column..column + count]) {
                *x += y;
            }
            done += count;
        }
    });
}

/// Normalises each row of `x` (rows, C) to mean 0 and variance 1, then scales and shifts it.
pub(super) fn layer_norm(x: &[f32], scale: &[f32], shift: &[f32], epsilon: f32, out: &mut [f32]) {
    let width = scale.len();
    split(out, width, x.len() * 2, |first, part| {
        let x = &x[first * width..first * width + part.len()];
        norm_rows(x, scale, shift, epsilon, part);
    });
}

/// Which keys a row of attention scores may look at.
#[derive(Clone, Copy)]
pub(super) struct Visible<'a> {
    /// Keys before the first query of this step.
    pub past_len: usize,
    /// Queries in this step.
    pub queries: usize,
    /// Heads of a batch element.
    pub heads: usize,
    /// `true` where a key is a token and not padding: (B, past_len + queries); none if all are.
    pub key_mask: Option<&'a [bool]>,
}

impl Visible<'_> {
    fn keys(&self) -> usize {
        self.past_len + self.queries
    }

    /// The mask of one batch element's keys.
    fn mask_of(&self, batch_element: usize) -> Option<&[bool]> {
        self.key_mask.map(|mask| &mask[batch_element * self.keys()..(batch_element + 1) * self.keys()])
    }
}

/// Softmax over the visible keys of each row of `scores` (B, H, T, S), multiplied by `scale` before;
/// keys that must not be seen get exactly 0.
pub(super) fn causal_softmax(scores: &mut [f32], scale: f32, visible: Visible<'_>) {
    let keys = visible.keys();
    let work = scores.len() * 8;
    split(scores, keys, work, |first, part| {
        for (row, scores) in (first..).zip(part.chunks_exact_mut(keys)) {
            let query = row % visible.queries;
            let batch_element = row / (visible.queries * visible.heads);
            let (seen, unseen) = scores.split_at_mut(visible.past_len + query + 1);
            unseen.fill(0.0);
            softmax(seen, scale, visible.mask_of(batch_element));
        }
    });
}

/// Keys and values of one layer, (B, H, capacity, D) each.
pub(super) struct Cached<'a> {
    pub k: &'a [f32],
    pub v: &'a [f32],
    pub capacity: usize,
    pub d: usize,
}

/// Attention of one query for each head to the visible keys: `q` and `out` (B, H, D).
pub(super) fn attend_one(q: &[f32], cached: &Cached<'_>, scale: f32, visible: Visible<'_>, out: &mut [f32]) {
    let (keys, d) = (visible.keys(), cached.d);
    split(out, d, q.len() * keys * 2, |first, part| {
        let mut scores = vec![0.0; keys];
        for (head, out) in (first..).zip(part.chunks_exact_mut(d)) {
            let past = head * cached.capacity * d..(head * cached.capacity + keys) * d;
            rows_times(&cached.k[past.clone()], &q[head * d..(head + 1) * d], &[], d, &mut scores);
            softmax(&mut scores, scale, visible.mask_of(head / visible.heads));
            weighted_sum(&cached.v[past], &scores, out);
        }
    });
}

/// Runs `run(first_unit, part)` on contiguous parts of `out`, shared among the threads. A part is a whole
/// number of units; `work` says how much there is to do in all.
fn split(out: &mut [f32], unit: usize, work: usize, run: impl Fn(usize, &mut [f32]) + Sync) {
    let threads = threads();
    let parts = (work / WORTH_HANDING_OVER).min(threads * PARTS_PER_THREAD);
    if threads == 1 || parts <= 1 {
        return run(0, out);
    }
    let units_per_part = (out.len() / unit).div_ceil(parts);
    // Each part is taken once; the locks are never waited for, they only prove that to rustc.
    let parts: Vec<Mutex<&mut [f32]>> = out.chunks_mut(units_per_part * unit).map(Mutex::new).collect();
    pool().run(parts.len(), threads, &|index| {
        if let Ok(mut part) = parts[index].lock() {
            run(index * units_per_part, &mut part);
        }
    });
}

kernel! {
    /// One thread's part of `matvec`.
    fn rows_times<W>(weight: &[W], x: &[f32], bias: &[f32], k: usize, out: &mut [f32]) = rows_times_body
}

#[inline(always)]
fn rows_times_body<const FMA: bool, W: Element>(weight: &[W], x: &[f32], bias: &[f32], k: usize, out: &mut [f32]) {
    let m = x.len() / k;
    for (n, (row, out)) in weight.chunks_exact(k).zip(out.chunks_exact_mut(m)).enumerate() {
        let bias = bias.get(n).copied().unwrap_or(0.0);
        for (x, out) in x.chunks_exact(k).zip(out) {
            *out = dot::<FMA, W>(row, x) + bias;
        }
    }
}

/// Independent sums, enough to keep the adders busy while each waits for its previous addition.
const LANES: usize = 64;

#[inline(always)]
fn dot<const FMA: bool, W: Element>(weight: &[W], x: &[f32]) -> f32 {
    let (weight_blocks, weight_tail) = weight.as_chunks::<LANES>();
    let (x_blocks, x_tail) = x.as_chunks::<LANES>();
    let mut sums = [0.0_f32; LANES];
    for (weight, x) in weight_blocks.iter().zip(x_blocks) {
        for lane in 0..LANES {
            sums[lane] = multiply_add::<FMA>(weight[lane].widen(), x[lane], sums[lane]);
        }
    }
    let tail: f32 = weight_tail.iter().zip(x_tail).map(|(weight, x)| weight.widen() * x).sum();
    total(sums) + tail
}

/// The sum of all lanes, halving their number until few are left.
#[inline(always)]
fn total(mut sums: [f32; LANES]) -> f32 {
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            sums[lane] += sums[lane + width];
        }
        width /= 2;
    }
    sums[0]
}

#[inline(always)]
fn multiply_add<const FMA: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FMA { a.mul_add(b, c) } else { a * b + c }
}

kernel! {
    /// `out[d] = sum_s weights[s] * rows[s, d]`.
    fn weighted_sum(rows: &[f32], weights: &[f32], out: &mut [f32]) = weighted_sum_body
}

#[inline(always)]
fn weighted_sum_body<const FMA: bool>(rows: &[f32], weights: &[f32], out: &mut [f32]) {
    out.fill(0.0);
    for (row, &weight) in rows.chunks_exact(out.len()).zip(weights) {
        for (out, &value) in out.iter_mut().zip(row) {
            *out = multiply_add::<FMA>(weight, value, *out);
        }
    }
}

kernel! {
    /// One thread's part of `gelu_new`.
    fn gelu_part(x: &mut [f32]) = gelu_body
}

#[inline(always)]
fn gelu_body<const FMA: bool>(x: &mut [f32]) {
    const MINUS_TWO_SQRT_TWO_OVER_PI: f32 = -1.595_769_2;
    for x in x {
        let u = *x * multiply_add::<FMA>(0.044_715 * *x, *x, 1.0);
        *x /= 1.0 + exp::<FMA>(MINUS_TWO_SQRT_TWO_OVER_PI * u);
    }
}

kernel! {
    /// One thread's part of `silu`.
    fn silu_part(x: &mut [f32]) = silu_body
}

#[inline(always)]
fn silu_body<const FMA: bool>(x: &mut [f32]) {
    for x in x {
        *x /= 1.0 + exp::<FMA>(-*x);
    }
}

kernel! {
    /// One thread's part of `layer_norm`.
    fn norm_rows(x: &[f32], scale: &[f32], shift: &[f32], epsilon: f32, out: &mut [f32]) = norm_rows_body
}

#[inline(always)]
fn norm_rows_body<const FMA: bool>(x: &[f32], scale: &[f32], shift: &[f32], epsilon: f32, out: &mut [f32]) {
    let width = scale.len();
    for (x, out) in x.chunks_exact(width).zip(out.chunks_exact_mut(width)) {
        let mean = lane_sum(x, |value| value) / width as f32;
        let variance = lane_sum(x, |value| (value - mean) * (value - mean)) / width as f32;
        let factor = 1.0 / (variance + epsilon).sqrt();
        for (((out, x), scale), shift) in out.iter_mut().zip(x).zip(scale).zip(shift) {
            *out = multiply_add::<FMA>((x - mean) * factor, *scale, *shift);
        }
    }
}

#[inline(always)]
fn lane_sum(x: &[f32], term: impl Fn(f32) -> f32) -> f32 {
    let (blocks, tail) = x.as_chunks::<LANES>();
    let mut sums = [0.0_f32; LANES];
    for block in blocks {
        for lane in 0..LANES {
            sums[lane] += term(block[lane]);
        }
    }
    total(sums) + tail.iter().map(|&value| term(value)).sum::<f32>()
}

/// Softmax in place over the keys that `mask` allows; the others get 0. A row that may see nothing at
/// all (a query that is padding itself) becomes zeros. Scores that are NaN stay visible as NaN.
fn softmax(scores: &mut [f32], scale: f32, mask: Option<&[bool]>) {
    if let Some(mask) = mask {
        let mask = &mask[..scores.len()];
        if !mask.contains(&true) {
            return scores.fill(0.0);
        }
        for (score, &allowed) in scores.iter_mut().zip(mask) {
            *score = if allowed { *score } else { f32::NEG_INFINITY };
        }
    }
    let largest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    exp_shifted(scores, scale, largest);
    if let Some(mask) = mask {
        for (score, &allowed) in scores.iter_mut().zip(mask) {
            *score = if allowed { *score } else { 0.0 };
        }
    }
    let factor = 1.0 / scores.iter().sum::<f32>();
    for score in scores {
        *score *= factor;
    }
}

kernel! {
    /// `x[i] = exp((x[i] - largest) * scale)`.
    fn exp_shifted(x: &mut [f32], scale: f32, largest: f32) = exp_shifted_body
}

#[inline(always)]
fn exp_shifted_body<const FMA: bool>(x: &mut [f32], scale: f32, largest: f32) {
    for x in x {
        *x = exp::<FMA>((*x - largest) * scale);
    }
}

/// `e^x` to within two units in the last place, in a form that compilers turn into vector code.
///
/// `e^x = 2^n * e^r` with `|r| <= ln(2) / 2`; `e^r` is a polynomial. Adding 1.5 * 2^23 rounds `x / ln(2)`
/// to the integer `n` and leaves `n` in the lowest bits.
///
/// Source: Moshier, Cephes Mathematical Library, `expf.c`.
#[inline(always)]
fn exp<const FMA: bool>(x: f32) -> f32 {
    const ROUND: f32 = 12_582_912.0;
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    const TERMS: [f32; 6] = [1.987_569_1e-4, 1.398_2e-3, 8.333_452e-3, 4.166_579_6e-2, 0.166_666_66, 0.5];
    // Beyond these, the result would not be a normal number.
    let x = x.clamp(-87.3, 88.3);
    let shifted = multiply_add::<FMA>(x, std::f32::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = multiply_add::<FMA>(n, -LN_2_LOW, multiply_add::<FMA>(n, -LN_2_HIGH, x));
    let mut sum = TERMS[0];
    for term in &TERMS[1..] {
        sum = multiply_add::<FMA>(sum, r, *term);
    }
    let e_to_r = multiply_add::<FMA>(sum * r, r, r) + 1.0;
    let two_to_n = f32::from_bits((shifted.to_bits() << 23).wrapping_add(1.0_f32.to_bits()));
    e_to_r * two_to_n
}

#[cfg(test)]
#[path = "kernels_tests.rs"]
mod tests;

//! What the exercises compute, in double precision, and as well-known mistakes have it.

use super::Per;

/// The largest magnitude of each column.
pub(super) fn largest(x: &[f64], columns: usize) -> Vec<f64> {
    let mut all = vec![0.0_f64; columns];
    x.chunks_exact(columns).for_each(|row| all.iter_mut().zip(row).for_each(|(all, x)| *all = all.max(x.abs())));
    all
}

/// How numbers are rounded.
#[derive(Debug, Clone, Copy)]
pub(super) struct Grid {
    pub per: Per,
    /// Steps from 0 to the largest magnitude.
    pub last: f64,
    /// The largest number itself, not its magnitude.
    pub signed: bool,
}

impl Grid {
    pub fn new(per: Per, bits: u32) -> Self {
        Self { per, last: 2.0_f64.powi(bits as i32 - 1) - 1.0, signed: false }
    }

    /// The step of each number.
    fn steps(self, x: &[f64], columns: usize) -> Vec<f64> {
        let place = |i: usize| match self.per {
            Per::Tensor => 0,
            Per::Row => i / columns,
            Per::Column => i % columns,
        };
        let mut largest = vec![0.0_f64; x.len()];
        for (i, x) in x.iter().enumerate() {
            let most = &mut largest[place(i)];
            *most = most.max(if self.signed { *x } else { x.abs() });
        }
        (0..x.len()).map(|i| largest[place(i)] / self.last).collect()
    }

    /// How many steps each number is from 0, a whole number; 0 where the step is.
    pub fn whole_steps(self, x: &[f64], columns: usize) -> Vec<f64> {
        let of = |(x, step): (&f64, f64)| if step == 0.0 { 0.0 } else { (x / step).round() };
        x.iter().zip(self.steps(x, columns)).map(of).collect()
    }

    /// The numbers with their steps cut off towards 0; in `f32` as answers have it, or the largest may lose a step only here.
    pub fn cut_off(self, x: &[f64], columns: usize) -> Vec<f64> {
        let of = |(x, step): (&f64, f64)| {
            let step = step as f32;
            if step == 0.0 { 0.0 } else { f64::from((*x as f32 / step).trunc() * step) }
        };
        x.iter().zip(self.steps(x, columns)).map(of).collect()
    }

    /// The rounded numbers, and how near any came to the edge between two steps, in steps.
    pub fn round(self, x: &[f64], columns: usize) -> (Vec<f64>, f64) {
        let mut margin = f64::INFINITY;
        let round = |(x, step): (&f64, f64)| {
            if step == 0.0 {
                return 0.0;
            }
            let steps = x / step;
            margin = margin.min((steps - steps.floor() - 0.5).abs());
            step * steps.round()
        };
        (x.iter().zip(self.steps(x, columns)).map(round).collect(), margin)
    }
}

/// `out[t, n] = sum_k x[t, k] w[n, k]`
pub(super) fn product(x: &[f64], weights: &[f64], columns: usize) -> Vec<f64> {
    let dot = |x: &[f64], w: &[f64]| x.iter().zip(w).map(|(x, w)| x * w).sum();
    x.chunks_exact(columns).flat_map(|x| weights.chunks_exact(columns).map(move |w| dot(x, w))).collect()
}

/// Blocks of the largest power of two that divides the length, each multiplied by Sylvester's matrix: entry (i, j) is -1 to
/// the number of binary digits that i and j share. By definition, not by steps.
pub(super) fn hadamard(x: &[f64], block: usize, scale: f64) -> Vec<f64> {
    let entry = |i: usize, j: usize| if (i & j).count_ones().is_multiple_of(2) { scale } else { -scale };
    let of_block = |x: &[f64]| -> Vec<f64> {
        (0..x.len()).map(|i| x.iter().enumerate().map(|(j, x)| entry(i, j) * x).sum()).collect()
    };
    x.chunks(block.max(1)).flat_map(of_block).collect()
}

/// The largest power of two that divides a number; 1 for 0.
pub(super) fn block_of(n: usize) -> usize {
    if n == 0 { 1 } else { 1 << n.trailing_zeros() }
}

/// The answer to `turn`, for tests of what uses it.
#[cfg(test)]
pub(super) fn turn(rows: &mut [f32], signs: &[f32]) {
    let block = block_of(signs.len());
    for row in rows.chunks_exact_mut(signs.len()) {
        let signed: Vec<f64> = row.iter().zip(signs).map(|(x, sign)| f64::from(x * sign)).collect();
        let turned = hadamard(&signed, block, 1.0 / (block as f64).sqrt());
        row.iter_mut().zip(turned).for_each(|(x, turned)| *x = turned as f32);
    }
}

//! `work` and `least_seconds`: what a product asks of a machine.

use crate::cases::{random, size};
use crate::figure::{Figure, all_right, is_close};
use crate::{Complaint, Score, ask};

/// What some work takes of arithmetic and of memory.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Work {
    /// Additions and multiplications: a multiply-add counts as two.
    pub operations: f64,
    /// Bytes that are read from memory, or written to it.
    pub bytes: f64,
}

impl Work {
    /// Operations for each byte: the arithmetic intensity.
    pub fn intensity(&self) -> f64 {
        self.operations / self.bytes
    }
}

const WORK_HINTS: [&str; 3] = [
    "How many multiply-adds does one output take, and how many outputs are there?",
    "m rows of inputs and n rows of weights give m n outputs, of k multiply-adds each. Weights are read once, n k of them of \
     `bits` bits; inputs (m k) and outputs (m n) are float32.",
    "`Work { operations: 2.0 * m * n * k, bytes: n * k * bits / 8.0 + 4.0 * (m * k + m * n) }`, each size as f64.",
];

/// Checks `work(m, n, k, bits)`.
pub fn check_work(yours: fn(usize, usize, usize, f64) -> Work) -> Score {
    type Case = ([usize; 3], f64, Work);
    let mut rng = random(71);
    let answer = |(case, bits): (usize, f64)| {
        let mut any = || size(&mut rng, 5000) + 1;
        let sizes = match case {
            0 => [1, 8192, 2048],
            1 => [1; 3],
            2 => [4096, 8192, 2048],
            _ => [any(), any(), any()],
        };
        let [m, n, k] = sizes;
        Ok((sizes, bits, ask(|| Ok(yours(m, n, k, bits)))?))
    };
    let answers: Result<Vec<Case>, Complaint> =
        [32.0, 32.0, 16.0, 8.0, 4.5, 4.0, 3.25].into_iter().enumerate().map(answer).collect();
    let figures = |answers: &[Case], of: fn(&Work) -> f64, right: fn([f64; 4]) -> f64, mistakes: &[Mistake]| {
        let figure = |(sizes, bits, got): &Case| {
            let [m, n, k] = sizes.map(|size| size as f64);
            let mistakes = mistakes.iter().map(|(wrong, why)| (wrong([m, n, k, *bits]), *why)).collect();
            let what = format!("work({}, {}, {}, {bits})", sizes[0], sizes[1], sizes[2]);
            Figure { what, got: of(got), expected: right([m, n, k, *bits]), mistakes }
        };
        all_right(&answers.iter().map(figure).collect::<Vec<_>>(), is_close)
    };
    Score::new("work", WORK_HINTS)
        .about(&answers, "two operations for each multiply-add", |answers| {
            figures(answers, |work| work.operations, |[m, n, k, _]| 2.0 * m * n * k, &OPERATIONS)
        })
        .about(&answers, "bytes: the weights once, in their format, and inputs and outputs", |answers| {
            figures(answers, |work| work.bytes, |[m, n, k, bits]| n * k * bits / 8.0 + 4.0 * m * (k + n), &BYTES)
        })
}

type Mistake = (fn([f64; 4]) -> f64, &'static str);

const OPERATIONS: [Mistake; 3] = [
    (|[m, n, k, _]| m * n * k, "a multiply-add is two operations"),
    (|[_, n, k, _]| 2.0 * n * k, "each of the m rows of inputs is multiplied by all weights"),
    (|[m, n, k, _]| m * n * (2.0 * k - 1.0), "count multiply-adds, k for each output"),
];

const BYTES: [Mistake; 6] = [
    (|[m, n, k, bits]| m * n * k * bits / 8.0 + 4.0 * m * (k + n), "weights are read once for all m rows of inputs"),
    (|[_, n, k, bits]| n * k * bits / 8.0, "inputs and outputs are read and written, too, in float32"),
    (|[m, n, k, bits]| n * k * bits / 8.0 + 4.0 * m * k, "outputs are missing: m n numbers of 4 bytes"),
    (|[m, n, k, bits]| n * k * bits / 8.0 + 4.0 * m * n, "inputs are missing: m k numbers of 4 bytes"),
    (|[m, n, k, bits]| n * k * bits + 4.0 * m * (k + n), "`bits` is in bits: eight are a byte"),
    (
        |[m, n, k, bits]| (n * k + m * (k + n)) * bits / 8.0,
        "only weights have `bits` bits; inputs and outputs are float32",
    ),
];

const LEAST_HINTS: [&str; 3] = [
    "How long does memory take for the bytes, and how long arithmetic for the operations? Which of the two ends later?",
    "Both go on at the same time, so the work takes as long as the longer one. `gb_per_s` is in 10^9 bytes per second, and \
     `gops` in 10^9 operations per second.",
    "`(work.bytes / (1e9 * gb_per_s)).max(work.operations / (1e9 * gops))`",
];

/// Checks `least_seconds(work, gb_per_s, gops)`.
pub fn check_least_seconds(yours: fn(&Work, f64, f64) -> f64) -> Score {
    let figures = |memory: bool| -> Result<Vec<Figure>, Complaint> {
        let mut rng = random(72);
        let mut figure = |index: usize| {
            let bytes = 1e6 * size(&mut rng, 900_000) as f64;
            let (gb_per_s, gops) = (size(&mut rng, 400) as f64 / 3.0, size(&mut rng, 3000) as f64 / 7.0);
            // One of the two takes longer, now and then by hardly anything.
            let factor: f64 = [1.05, 3.0, 40.0][index % 3];
            let operations = gops * bytes / gb_per_s * if memory { 1.0 / factor } else { factor };
            let work = Work { operations, bytes };
            let [read, computed] = [bytes / (1e9 * gb_per_s), operations / (1e9 * gops)];
            let mistakes = vec![
                (
                    read + computed,
                    "reading and computing overlap: it takes as long as the longer one, not both together",
                ),
                ((read * 1e9 / 2.0_f64.powi(30)).max(computed), "a gigabyte is 10^9 bytes, not 2^30"),
                (read.max(computed / 2.0), "`operations` already counts a multiply-add as two"),
                (read.min(computed), "the work has ended when both have: take the longer one"),
                (1e9 * read.max(computed), "`gb_per_s` and `gops` are in 10^9 per second"),
                ((bytes * gb_per_s).max(operations * gops), "divide by the speeds: twice as fast takes half the time"),
            ];
            let what =
                format!("{operations:.3e} operations and {bytes:.3e} bytes at {gops:.2} Gop/s and {gb_per_s:.2} GB/s");
            let got = ask(|| Ok(yours(&work, gb_per_s, gops)))?;
            Ok(Figure { what, got, expected: read.max(computed), mistakes })
        };
        (0..12).map(&mut figure).collect()
    };
    let verdict = |memory: bool| figures(memory).and_then(|figures| all_right(&figures, is_close));
    Score::new("least_seconds", LEAST_HINTS)
        .point("where memory takes longer", verdict(true))
        .point("where arithmetic takes longer", verdict(false))
}

//! `dot_in_lanes`, `dot_vectors` and `four_dots`.

use rand::Rng;
use rand::rngs::StdRng;

use crate::cases::random;
use crate::lesson_0::trials::{Trial, in_each};
use crate::{Score, Verdict, ask};

/// Dot products of every length: none, one, whole chunks, one less and one more, and a row of a matrix.
const LENGTHS: [usize; 18] = [0, 1, 3, 7, 8, 9, 15, 17, 31, 33, 40, 47, 63, 65, 100, 127, 333, 2051];
const WHOLE: [usize; 5] = [16, 32, 64, 160, 2048];
/// The same for chunks of four vectors.
const WHOLE_VECTORS: [usize; 5] = [32, 64, 96, 160, 2048];
/// Chunks that an answer may take, the usual one first.
const CHUNKS: [usize; 4] = [16, 8, 32, 64];

pub(super) const IF_NAN: &str = "no input was NaN or infinite";

/// Numbers whose products do not cancel each other out.
pub(super) fn numbers(rng: &mut StdRng, n: usize) -> Vec<f32> {
    (0..n).map(|_| rng.random_range(-0.4..1.2)).collect()
}

/// The dot product of what `takes` says of the numbers' places.
pub(super) fn dot_of(w: &[f32], x: &[f32], takes: impl Fn(usize) -> bool) -> f64 {
    let products = w.iter().zip(x).map(|(w, x)| f64::from(*w) * f64::from(*x)).enumerate();
    // The sum of nothing is -0.
    0.0 + products.filter(|(i, _)| takes(*i)).map(|(_, product)| product).sum::<f64>()
}

pub(super) fn dot(w: &[f32], x: &[f32]) -> f64 {
    dot_of(w, x, |_| true)
}

const TAIL: &str = "the last numbers, which do not fill a chunk, are missing: they are in `remainder()` of `chunks_exact`, or \
                    behind `as_chunks`";

/// What leaves out the tail, for each size of chunk.
pub(super) fn without_tail(w: &[f32], x: &[f32]) -> Vec<f64> {
    CHUNKS.map(|chunk| dot_of(w, x, |i| i < w.len() / chunk * chunk)).to_vec()
}

fn trial(w: &[f32], x: &[f32], got: f32) -> Trial {
    let n = w.len();
    let mut mistakes: Vec<(Vec<f64>, &str)> = without_tail(w, x).into_iter().map(|dot| (vec![dot], TAIL)).collect();
    let wrong = [
        (dot_of(w, x, |i| i % 16 == 0), "only the first sum is returned: add all of them up"),
        (dot_of(w, x, |i| i % 8 == 0), "only the first sum is returned: add all of them up"),
        (dot_of(w, x, |i| i / 8 % 4 == 0), "only the first vector of sums is returned: add all of them up"),
        (dot_of(w, x, |i| i < 16), "only the first chunk is computed"),
        (dot_of(w, x, |i| i >= n / 16 * 16), "only the tail is computed, not the chunks before it"),
        (dot_of(w, w, |_| true), "multiply the weights by the inputs, not by themselves"),
        (dot(w, x) + dot_of(w, x, |i| i >= n / 16 * 16), "the tail is counted twice"),
    ];
    mistakes.extend(wrong.map(|(dot, why)| (vec![dot], why)));
    Trial::new(format!("the dot product of {n} numbers"), &[got], vec![dot(w, x)]).mistakes(mistakes)
}

type Yours<'a> = &'a dyn Fn(&[f32], &[f32]) -> f32;

fn of_lengths(yours: Yours<'_>, lengths: &[usize]) -> Verdict {
    let mut rng = random(73);
    let mut of = |&n: &usize| {
        let (w, x) = (numbers(&mut rng, n), numbers(&mut rng, n));
        Ok(trial(&w, &x, ask(|| Ok(yours(&w, &x)))?))
    };
    in_each(lengths.iter().map(&mut of).collect(), IF_NAN)
}

/// NaN and infinity among weights or inputs, in chunks and in the tail, also where the other factor is 0.
fn passes_through(yours: Yours<'_>) -> Verdict {
    for (n, place) in [(40, 3), (40, 39), (1, 0), (64, 33), (2051, 2050)] {
        for (special, zero) in [(f32::NAN, false), (f32::NAN, true), (f32::INFINITY, false), (f32::NEG_INFINITY, false)]
        {
            let (mut w, x) = (vec![0.5_f32; n], vec![if zero { 0.0_f32 } else { 1.0 }; n]);
            w[place] = special;
            for (w, x) in [(&w, &x), (&x, &w)] {
                let got = ask(|| Ok(yours(w, x)))?;
                let expected = dot(w, x) as f32;
                if got != expected && !(got.is_nan() && expected.is_nan()) {
                    let with = if zero { ", times 0" } else { "" };
                    return wrong!(
                        "number {place} of {n} is {special}{with}: the sum is {expected}, and you gave {got}; whatever is \
                         wrong with a number must show in the result"
                    );
                }
            }
        }
    }
    Ok(())
}

/// One number of 10^9 and thousands of ones: a float32 that large cannot grow by 1. Of several sums, only one is that large.
fn sums_are_independent(yours: Yours<'_>) -> Verdict {
    let n = 4096;
    let (mut w, x) = (vec![1.0_f32; n], vec![1.0_f32; n]);
    for place in [0, 1, 5] {
        w.fill(1.0);
        w[place] = 1e9;
        let (got, exact) = (f64::from(ask(|| Ok(yours(&w, &x)))?), dot(&w, &x));
        let lost = exact - got;
        // Of four sums, one loses its quarter.
        if lost.is_nan() || lost.abs() > 1100.0 {
            let one = w.iter().zip(&x).fold(0.0_f32, |sum, (w, x)| sum + w * x);
            let why = if got == f64::from(one) {
                "that is what one running sum gives: once it is 10^9, each further 1 is rounded away. Keep several sums, \
                 each of every sixteenth product, and add them up at the end"
            } else {
                "fewer than four sums, or not all of what they hold: keep several, and add them up at the end"
            };
            return wrong!("10^9 and {} ones: the sum is off by {lost:.0}: {why}", n - 1);
        }
    }
    Ok(())
}

const LANES_HINTS: [&str; 3] = [
    "If each of sixteen sums takes every sixteenth product, which of them must wait for another?",
    "`w.chunks_exact(16)` gives the whole chunks, and its `remainder()` what is left. Product i of a chunk is added to sum i; \
     at the end, add up the sixteen sums and the products of what is left.",
    "`let (ws, xs) = (w.chunks_exact(16), x.chunks_exact(16)); let tail = dot_in_order(ws.remainder(), xs.remainder()); for (w, \
     x) in ws.zip(xs) { for i in 0..16 { sums[i] += w[i] * x[i]; } } sums.iter().sum::<f32>() + tail`",
];

/// Checks `dot_in_lanes(w, x)`.
pub fn check_dot_in_lanes(yours: fn(&[f32], &[f32]) -> f32) -> Score {
    Score::new("dot_in_lanes", LANES_HINTS)
        .point("whole chunks", of_lengths(&yours, &WHOLE))
        .point("any length: none, one, and what does not fill a chunk", of_lengths(&yours, &LENGTHS))
        .point("several sums, so that a large product rounds few others away", sums_are_independent(&yours))
        .point("NaN and infinity show in the result", passes_through(&yours))
}

const VECTORS_HINTS: [&str; 3] = [
    "How many sums of eight numbers do you need so that a multiply-add need not wait for the one before?",
    "`let (ws, w_tail) = w.as_chunks::<32>();` gives chunks of 32: four vectors of weights, four of inputs, four multiply-adds, \
     each into a sum of its own. `sum` adds up a vector, and `dot_in_order` takes the tail.",
    "`for (w, x) in ws.iter().zip(xs) { for i in 0..4 { sums[i] = mul_add(load(&w[8 * i..]), load(&x[8 * i..]), sums[i]); } }`, \
     then `sum(sums[0]) + sum(sums[1]) + sum(sums[2]) + sum(sums[3]) + dot_in_order(w_tail, x_tail)`",
];

/// Checks `dot_vectors(w, x)`.
pub fn check_dot_vectors(yours: fn(&[f32], &[f32]) -> f32) -> Score {
    Score::new("dot_vectors", VECTORS_HINTS)
        .point("whole chunks of four vectors", of_lengths(&yours, &WHOLE_VECTORS))
        .point("any length: none, one, and what does not fill a chunk", of_lengths(&yours, &LENGTHS))
        .point("NaN and infinity show in the result", passes_through(&yours))
}

const FOUR_HINTS: [&str; 3] = [
    "Which numbers do four dot products with the same vector share?",
    "Load eight inputs once, and multiply them by eight weights of each of the four rows: `sums[r] = \
     mul_add(load(&rows[r][at..]), inputs, sums[r])`. The tail of each row is added at the end.",
    "`let whole = x.len() / 8 * 8; for at in (0..whole).step_by(8) { let inputs = load(&x[at..]); for r in 0..4 { sums[r] = \
     mul_add(load(&rows[r][at..]), inputs, sums[r]); } }`, then `[0, 1, 2, 3].map(|r| sum(sums[r]) + \
     dot_in_order(&rows[r][whole..], &x[whole..]))`",
];

/// Checks `four_dots(rows, x)`.
pub fn check_four_dots(yours: fn([&[f32]; 4], &[f32]) -> [f32; 4]) -> Score {
    let of_lengths = |lengths: &[usize]| -> Verdict {
        let mut rng = random(74);
        let mut of = |&n: &usize| {
            // Each row is of another size, so that none passes for another.
            let rows =
                [1.0_f32, 3.0, -9.0, 27.0].map(|s| numbers(&mut rng, n).iter().map(|w| s * w).collect::<Vec<_>>());
            let x = numbers(&mut rng, n);
            let [a, b, c, d] = &rows;
            let got = ask(|| Ok(yours([a, b, c, d], &x)))?;
            let each = |of: &dyn Fn(&[f32]) -> f64| rows.iter().map(|row| of(row)).collect::<Vec<f64>>();
            let right = each(&|row| dot(row, &x));
            let tails = CHUNKS.iter().enumerate().map(|(i, _)| (each(&|row| without_tail(row, &x)[i]), TAIL));
            let mistakes = [
                (vec![right[0]; 4], "each row has a result of its own: these are all the first row's"),
                (right.iter().rev().copied().collect(), "the results are in the order of the rows"),
                (vec![right.iter().sum(); 4], "each row has a result of its own: do not add them up"),
            ];
            let what = format!("four dot products of {n} numbers");
            Ok(Trial::new(what, &got, right.clone()).mistakes(tails.chain(mistakes)))
        };
        in_each(lengths.iter().map(&mut of).collect(), IF_NAN)
    };
    let row_by_row = |w: &[f32], x: &[f32]| {
        let [a, b, c, d] = yours([w, x, w, x], x);
        if a.to_bits() == c.to_bits() && b.to_bits() == d.to_bits() { a } else { f32::MIN }
    };
    Score::new("four_dots", FOUR_HINTS)
        .point("whole vectors, a result for each row", of_lengths(&WHOLE))
        .point("any length: none, one, and what does not fill a vector", of_lengths(&LENGTHS))
        .point("NaN and infinity show in the row that has them", passes_through(&row_by_row))
}

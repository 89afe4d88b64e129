//! `dot_int8` and `matvec_int8`.

use rand::Rng;
use rand::rngs::StdRng;

use crate::cases::{random, size};
use crate::figure::{Figure, all_right, largest_magnitude};
use crate::lesson_0::trials::{Trial, all_close, in_each};
use crate::{Complaint, Score, Verdict, ask, changed};

const DOT_HINTS: [&str; 3] = [
    "How large can the product of two int8 numbers be, and how large the sum of 100,000 of them?",
    "Make each factor an `i32` before you multiply: `i32::from(*w) * i32::from(*x)`. The sum of the longest row that is asked \
     for fits into an `i32`, so that it needs no checks: `wrapping_add` has none.",
    "`w.iter().zip(x).fold(0_i32, |sum, (w, x)| sum.wrapping_add(i32::from(*w) * i32::from(*x)))`",
];

fn bytes(rng: &mut StdRng, n: usize) -> Vec<i8> {
    (0..n).map(|_| rng.random_range(i8::MIN..=i8::MAX)).collect()
}

fn sum_of(w: &[i8], x: &[i8], product: impl Fn(i8, i8) -> i64) -> f64 {
    w.iter().zip(x).map(|(w, x)| product(*w, *x)).sum::<i64>() as f64
}

fn exact(w: &[i8], x: &[i8]) -> f64 {
    sum_of(w, x, |w, x| i64::from(w) * i64::from(x))
}

fn figure(w: &[i8], x: &[i8], got: i32) -> Figure {
    let (n, right) = (w.len(), exact(w, x));
    let in_float32 = f64::from(w.iter().zip(x).fold(0.0_f32, |sum, (w, x)| sum + f32::from(*w) * f32::from(*x)));
    let unsigned = sum_of(w, x, |w, x| i64::from(w.cast_unsigned()) * i64::from(x.cast_unsigned()));
    let mut mistakes = vec![
        (
            sum_of(w, x, |w, x| i64::from(w.wrapping_mul(x))),
            "the products of int8 numbers do not fit into int8: make each an i32 first",
        ),
        (f64::from(right as i64 as i16), "the sum does not fit into 16 bits"),
        (in_float32, "that is the sum in float32, which has no whole numbers of more than 24 bits: stay in i32"),
        (unsigned, "int8 numbers have a sign: `i32::from(*w)` keeps it"),
        (
            sum_of(w, x, |w, x| i64::from(w.saturating_mul(x))),
            "the products of int8 numbers do not fit into int8: make each an i32 first",
        ),
    ];
    for chunk in [16, 8, 32, 64, 4] {
        let whole = n / chunk * chunk;
        mistakes.push((exact(&w[..whole], &x[..whole]), "the last numbers, which do not fill a chunk, are missing"));
    }
    Figure { what: format!("the dot product of {n} bytes"), got: got.into(), expected: right, mistakes }
}

/// Checks `dot_int8(w, x)`.
pub fn check_dot_int8(yours: fn(&[i8], &[i8]) -> i32) -> Score {
    let all = |pairs: Vec<(Vec<i8>, Vec<i8>)>| -> Verdict {
        let of = |(w, x): &(Vec<i8>, Vec<i8>)| Ok(figure(w, x, ask(|| Ok(yours(w, x)))?));
        all_right(&pairs.iter().map(of).collect::<Result<Vec<_>, Complaint>>()?, |a, b| a == b)
    };
    let mut rng = random(76);
    let mut of_lengths =
        |lengths: &[usize]| lengths.iter().map(|&n| (bytes(&mut rng, n), bytes(&mut rng, n))).collect();
    let (whole, any) =
        (of_lengths(&[16, 64, 2048]), of_lengths(&[0, 1, 2, 7, 15, 17, 31, 33, 63, 65, 100, 1001, 4099]));
    let extremes = [(127, 127), (-128, -128), (-128, 127)];
    let large = extremes.map(|(w, x)| (vec![w; 131_071], vec![x; 131_071])).to_vec();
    Score::new("dot_int8", DOT_HINTS)
        .point("sums are exact", all(whole))
        .point("any length: none, one, and what does not fill a chunk", all(any))
        .point("as large as an int32 holds, and exact to the last bit", all(large))
}

const MATVEC_HINTS: [&str; 3] = [
    "Which whole number does the largest input become, and what does a whole number then stand for?",
    "`scale` is the largest magnitude of the inputs over 127; each input becomes `(x / scale).round() as i8`. The dot product of \
     two rows of whole numbers is an `i32`; as an `f32`, times the row's scale and times the inputs', it is the output. If all \
     inputs are 0, so are the outputs; if one is NaN or infinite, no output is a number.",
    "`if x.iter().any(|x| !x.is_finite()) { y.fill(f32::NAN); return; }` comes first, then `let largest = \
     x.iter().fold(0.0_f32, |largest, x| largest.max(x.abs())); let scale = if largest > 0.0 { largest / 127.0 } else { 1.0 };`, \
     then the inputs as `Vec<i8>`, and for each row `*y = dot_int8_vectors(row, &inputs) as f32 * row_scale * scale`.",
];

/// Inputs that lie well within the steps of their grid, so that however one rounds, the whole numbers are the same.
fn inputs(rng: &mut StdRng, n: usize, largest: f32) -> (Vec<f32>, Vec<i8>) {
    let mut codes: Vec<i8> = (0..n).map(|_| rng.random_range(-126..=126)).collect();
    let place = rng.random_range(0..n);
    codes[place] = if rng.random() { 127 } else { -127 };
    let mut within = |(i, code): (usize, &i8)| {
        let off = if i == place { 0.0 } else { rng.random_range(-0.4..0.4_f32) };
        (f32::from(*code) + off) * (largest / 127.0)
    };
    (codes.iter().enumerate().map(&mut within).collect(), codes)
}

/// An answer: values, scales, inputs, outputs.
type Matvec<'a> = &'a dyn Fn(&[i8], &[f32], &[f32], &mut [f32]);

/// What an answer wrote, before which 7 stood in each output.
fn ask_matvec(yours: Matvec<'_>, values: &[i8], scales: &[f32], x: &[f32]) -> Result<Vec<f32>, Complaint> {
    changed(vec![7.0; scales.len()], |y| yours(values, scales, x, y))
}

/// Checks `matvec_int8(values, scales, x, y)`.
pub fn check_matvec_int8(yours: fn(&[i8], &[f32], &[f32], &mut [f32])) -> Score {
    let products = || -> Verdict {
        let mut rng = random(77);
        let mut trial = |index: usize| {
            let (n, k) = (size(&mut rng, 30), if index < 3 { 1 + index } else { size(&mut rng, 3000) });
            let largest = [1.0, 3e-20, 5e4][index % 3];
            let (values, scales) =
                (bytes(&mut rng, n * k), (0..n).map(|_| rng.random_range(0.001..0.1)).collect::<Vec<f32>>());
            let (x, codes) = inputs(&mut rng, k, largest);
            let got = ask_matvec(&yours, &values, &scales, &x)?;
            let with = |codes: &[i8], factor: &dyn Fn(usize) -> f64| -> Vec<f64> {
                values.chunks_exact(k).enumerate().map(|(row, values)| exact(values, codes) * factor(row)).collect()
            };
            let (step, largest) = (f64::from(largest / 127.0), f64::from(largest));
            let scale = |row: usize| f64::from(scales[row]);
            let both = |row: usize| scale(row) * step;
            // As an answer computes it, to the last bit: where it cuts off or rounds down, that decides.
            let scale_of_x = largest_magnitude(&x) / 127.0;
            let of = |step: f32| x.iter().map(|x| (x / step) as i8).collect::<Vec<i8>>();
            let down = x.iter().map(|x| (x / scale_of_x).floor() as i8).collect::<Vec<i8>>();
            let right = with(&codes, &both);
            let mistakes = [
                (with(&codes, &scale), "the scale of the inputs is missing"),
                (with(&codes, &|_| step), "the scale of each row of weights is missing"),
                (with(&codes, &|_| 1.0), "both scales are missing: the sum of whole numbers is not yet the output"),
                (with(&codes, &|_| scale(0) * step), "each row has a scale of its own, and you took the first one's"),
                (
                    with(&codes, &|row| scale(row) * largest),
                    "the largest input is 127, so the scale is the largest over 127",
                ),
                (with(&of(scale_of_x), &both), "`as i8` cuts off what is behind the point: round first"),
                (with(&down, &both), "round to the nearest whole number, not down"),
                (with(&of(1.0), &scale), "the inputs are divided by their scale before they become int8"),
                (right.iter().map(|y| y + 7.0).collect(), "outputs are written, not added to what was there before"),
                (vec![7.0; n], "nothing was written into `y`"),
            ];
            Ok(Trial::new(format!("a matrix ({n}, {k})"), &got, right.clone()).mistakes(mistakes))
        };
        in_each((0..14).map(&mut trial).collect(), "no input was NaN, and not all were 0")
    };
    let zeros = || -> Verdict {
        let got = ask_matvec(&yours, &[3, -4, 5, 6], &[0.5, 2.0], &[0.0, -0.0])?;
        let if_nan = "where all inputs are 0, so is their scale, and 0 / 0 is NaN: only `as i8` makes 0 of it";
        all_close(&[Trial::new("inputs that are all 0", &got, vec![0.0; 2])], if_nan)
    };
    let not_numbers = || -> Verdict {
        for special in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            for place in 0..3 {
                let mut x = [1.0, -2.0, 0.5];
                x[place] = special;
                let got = ask_matvec(&yours, &[1, 2, 3, -1, 0, 1], &[1.0, 0.1], &x)?;
                if let Some(number) = got.iter().find(|y| y.is_finite()) {
                    let why = if special.is_nan() {
                        "`f32::max` drops it, and `as i8` makes 0 of it"
                    } else {
                        "int8 has nothing for it, and `as i8` makes 127 or -128 of it"
                    };
                    return wrong!(
                        "input {place} is {special}, and an output is {number}: {why}; no output may look like a number"
                    );
                }
            }
        }
        Ok(())
    };
    Score::new("matvec_int8", MATVEC_HINTS)
        .point("whole numbers inside, both scales outside", products())
        .point("inputs that are all 0", zeros())
        .point("an input that is NaN or infinite shows in the outputs", not_numbers())
}

//! The ladders of the lesson: what learners wrote for a format, each on the matrix of that format.

use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError};

use quantlab::error::Result;
use quantlab::measure::threads;
use quantlab::report::{Estimate, LinePlot};

use super::picture::roofline_points;
use super::{Ladder, Limits, Matrices, Step, Work};
use crate::outcome::quietly;
use crate::{Complaint, attempt};

/// A dot product in float32, with its name.
pub type Dot = (&'static str, fn(&[f32], &[f32]) -> f32);
/// A dot product of whole numbers, with its name.
pub type Int8Dot = (&'static str, fn(&[i8], &[i8]) -> i32);
/// All rows of whole numbers with their scales, times inputs, into outputs.
pub type Int8Matvec = fn(&[i8], &[f32], &[f32], &mut [f32]);
/// Calls a part, by its first row and its outputs, on so many threads.
pub type InThreads = fn(usize, &mut [f32], &(dyn Fn(usize, &mut [f32]) + Sync));
/// All rows of a matrix, times inputs.
pub type Rows = fn(&[f32], &[f32], &mut [f32]);

/// A product of a matrix, row by row, with one row of inputs: into `y`, a number for each row. Rows of no numbers are 0.
pub fn each_row(dot: impl Fn(&[f32], &[f32]) -> f32, weights: &[f32], x: &[f32], y: &mut [f32]) {
    if x.is_empty() {
        return y.fill(0.0);
    }
    for (row, y) in weights.chunks_exact(x.len()).zip(y) {
        *y = dot(row, x);
    }
}

/// A kernel on all threads. It is tried on no rows first: one that is still `todo!()` says so on this thread, quietly.
///
/// # Panics
/// As the first part that does, on this thread: what another one prints would count as a failure of the cell.
fn shared(in_threads: InThreads, y: &mut [f32], part: &(dyn Fn(usize, &mut [f32]) + Sync)) {
    part(0, &mut []);
    let complaint = Mutex::new(None);
    in_threads(threads(), y, &|at, y| {
        if let Err(panicked) = quietly(|| part(at, y)) {
            complaint.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(panicked);
        }
    });
    match complaint.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(Complaint::Panicked(message)) => resume_unwind(Box::new(message)),
        Some(other) => resume_unwind(Box::new(other.to_string())),
        None => {}
    }
}

const ROUNDS: usize = 12;
/// The last name of each ladder.
pub(super) const ALL_THREADS: &str = "all threads";

/// Times dot products row by row, rows in blocks, and these on all threads, in float32.
///
/// # Errors
/// As [`Ladder::measure`].
pub fn float32_ladder(m: &Matrices, dots: &[Dot], in_blocks: Rows, in_threads: InThreads) -> Result<Ladder> {
    let (w, x, k) = (&m.float32[..], &m.x[..], m.x.len());
    let part = |at: usize, y: &mut [f32]| in_blocks(&w[at * k..][..y.len() * k], x, y);
    let by_row: Vec<_> = dots.iter().map(|(name, dot)| (*name, move |y: &mut [f32]| each_row(dot, w, x, y))).collect();
    let mut steps: Vec<Step<'_>> = by_row.iter().map(|(name, step)| (*name, step as &dyn Fn(&mut [f32]))).collect();
    let (blocks, all) = (|y: &mut [f32]| in_blocks(w, x, y), |y: &mut [f32]| shared(in_threads, y, &part));
    steps.extend([("four rows at once", &blocks as &dyn Fn(&mut [f32])), (ALL_THREADS, &all)]);
    Ladder::measure(("float32", w.len() / k), m.of_library()[0], x, ROUNDS, &steps)
}

/// Times one row of inputs, and four that share each row of weights, on all threads. The four are multiples of the one, and
/// of each row's four outputs another one is kept in turn, divided by its multiple.
///
/// # Errors
/// As [`Ladder::measure`].
pub fn batch_ladder(
    m: &Matrices,
    in_blocks: Rows,
    four_dots: fn([&[f32]; 4], &[f32]) -> [f32; 4],
    in_threads: InThreads,
) -> Result<Ladder> {
    let (w, x, k) = (&m.float32[..], &m.x[..], m.x.len());
    let scales = [1.0, 0.5, -1.0, 2.0_f32];
    let inputs = scales.map(|scale| x.iter().map(|x| scale * x).collect::<Vec<_>>());
    let inputs = [&inputs[0][..], &inputs[1], &inputs[2], &inputs[3]];
    let one = |at: usize, y: &mut [f32]| in_blocks(&w[at * k..][..y.len() * k], x, y);
    let four = |at: usize, y: &mut [f32]| {
        for (i, y) in y.iter_mut().enumerate() {
            *y = four_dots(inputs, &w[(at + i) * k..][..k])[i % 4] / scales[i % 4];
        }
    };
    let tried = |y: &mut [f32]| {
        four_dots([&[]; 4], &[]);
        shared(in_threads, y, &four);
    };
    let steps: [Step<'_>; 2] = [("one input", &|y| shared(in_threads, y, &one)), ("four inputs", &tried)];
    Ladder::measure(("float32, a batch", w.len() / k), m.of_library()[0], x, ROUNDS, &steps)
}

/// Times dot products of whole numbers row by row, inputs rounded beforehand and scales applied, and a product with all
/// that on all threads, in int8.
///
/// # Errors
/// As [`Ladder::measure`].
pub fn int8_ladder(m: &Matrices, dots: &[Int8Dot], matvec: Int8Matvec, in_threads: InThreads) -> Result<Ladder> {
    let k = m.x.len();
    let step = m.x.iter().fold(0.0_f32, |largest, x| largest.max(x.abs())) / 127.0;
    let inputs: Vec<i8> = m.x.iter().map(|x| (x / step).round() as i8).collect();
    let inputs = &inputs[..];
    let part = |at: usize, y: &mut [f32]| matvec(&m.int8[at * k..][..y.len() * k], &m.scales[at..][..y.len()], &m.x, y);
    let by_row = |dot: fn(&[i8], &[i8]) -> i32| {
        move |y: &mut [f32]| {
            for ((row, scale), y) in m.int8.chunks_exact(k).zip(&m.scales).zip(y) {
                *y = dot(row, inputs) as f32 * scale * step;
            }
        }
    };
    let by_row: Vec<_> = dots.iter().map(|(name, dot)| (*name, by_row(*dot))).collect();
    let mut steps: Vec<Step<'_>> = by_row.iter().map(|(name, step)| (*name, step as &dyn Fn(&mut [f32]))).collect();
    let all = |y: &mut [f32]| shared(in_threads, y, &part);
    steps.push((ALL_THREADS, &all));
    Ladder::measure(("int8", m.scales.len()), m.of_library()[1], &m.x, ROUNDS, &steps)
}

/// Times rows that are decoded into memory and then multiplied, rows that are decoded in registers, and these on all
/// threads, in NF4.
///
/// # Errors
/// As [`Ladder::measure`].
pub fn nf4_ladder(
    m: &Matrices,
    decode: fn(&[u8], &[f32], usize, &mut [f32]),
    dot: fn(&[f32], &[f32]) -> f32,
    dot_nf4: fn(&[u8], &[f32], &[f32]) -> f32,
    in_threads: InThreads,
) -> Result<Ladder> {
    let k = m.x.len();
    let decoded = |y: &mut [f32]| {
        let mut row = vec![0.0; k];
        for (r, y) in y.iter_mut().enumerate() {
            decode(&m.nf4, &m.absmax, r * k, &mut row);
            *y = dot(&row, &m.x);
        }
    };
    let part = |at: usize, y: &mut [f32]| {
        for (r, y) in (at..).zip(y) {
            *y = dot_nf4(&m.nf4[r * k / 2..][..k / 2], &m.absmax[r * k / 64..][..k / 64], &m.x);
        }
    };
    let all = |y: &mut [f32]| {
        dot_nf4(&[], &[], &[]);
        shared(in_threads, y, &part);
    };
    let steps: [Step<'_>; 3] =
        [("decoded into memory", &decoded), ("decoded in registers", &|y| part(0, y)), (ALL_THREADS, &all)];
    // The first step takes half a second or more.
    Ladder::measure(("NF4", 2 * m.nf4.len() / k), m.of_library()[2], &m.x, ROUNDS / 2 + 1, &steps)
}

/// Kernels of the ladders of float32, of a batch, of int8 and of NF4 below the machine's roofs. `work` says what the product of m rows of inputs with a matrix (n, k) of so many bits takes.
///
/// # Errors
/// As [`roofline`](quantlab::report::roofline).
pub fn kernels_roofline(
    m: &Matrices,
    ladders: [&Ladder; 4],
    limits: &Limits,
    work: impl Fn(usize, usize, usize, f64) -> Work,
) -> Result<LinePlot> {
    let points = attempt(|| Ok(points(m, ladders, work)));
    let points: Vec<_> = points.iter().map(|(name, x, y)| (name.as_str(), *x, *y)).collect();
    limits.roofline("Your kernels on this machine", &points)
}

fn points(
    m: &Matrices,
    [float32, batch, int8, nf4]: [&Ladder; 4],
    work: impl Fn(usize, usize, usize, f64) -> Work,
) -> Vec<(String, f64, Estimate)> {
    let sizes = m.sizes();
    let of = |format: usize, inputs: usize| {
        let (_, rows, bytes) = sizes[format];
        work(inputs, rows, m.x.len(), 8.0 * bytes as f64 / (rows * m.x.len()) as f64)
    };
    let [first, second, third] = [0, 1, 2].map(|format| of(format, 1));
    let mut points = Vec::new();
    points.extend(roofline_points(float32, &[("one sum", first), (ALL_THREADS, first)]));
    points.extend(roofline_points(batch, &[("four inputs", of(0, 4))]));
    points.extend(roofline_points(int8, &[(ALL_THREADS, second)]));
    points.extend(roofline_points(nf4, &[("decoded into memory", third), (ALL_THREADS, third)]));
    points
}

#[cfg(test)]
mod tests {
    use super::*;
    use quantlab::quant::FourBit;

    fn in_one_thread(_: usize, y: &mut [f32], part: &(dyn Fn(usize, &mut [f32]) + Sync)) {
        let (a, b) = y.split_at_mut(y.len() / 3);
        let first = a.len();
        part(0, a);
        part(first, b);
    }

    fn dot(w: &[f32], x: &[f32]) -> f32 {
        w.iter().zip(x).map(|(w, x)| w * x).sum()
    }

    fn decode(packed: &[u8], absmax: &[f32], first: usize, out: &mut [f32]) {
        for (i, out) in (first..).zip(out) {
            let code = if i.is_multiple_of(2) { packed[i / 2] >> 4 } else { packed[i / 2] & 15 };
            *out = FourBit::Nf4.codebook()[usize::from(code)] * absmax[i / 64];
        }
    }

    /// Plain kernels agree with the library in every format, whole and in parts.
    #[test]
    fn ladders_multiply_what_the_library_multiplies() {
        let m = Matrices::random(6, 128);
        let float32 = float32_ladder(&m, &[("one sum", dot)], |w, x, y| each_row(dot, w, x, y), in_one_thread).unwrap();
        let four = |rows: [&[f32]; 4], x: &[f32]| rows.map(|row| dot(row, x));
        let batch = batch_ladder(&m, |w, x, y| each_row(dot, w, x, y), four, in_one_thread).unwrap();
        let int8_dot = |w: &[i8], x: &[i8]| w.iter().zip(x).map(|(w, x)| i32::from(*w) * i32::from(*x)).sum::<i32>();
        let matvec = |values: &[i8], scales: &[f32], x: &[f32], y: &mut [f32]| {
            let step = x.iter().fold(0.0_f32, |largest, x| largest.max(x.abs())) / 127.0;
            for ((row, scale), y) in values.chunks_exact(x.len()).zip(scales).zip(y) {
                let products = row.iter().zip(x).map(|(w, x)| i32::from(*w) * (x / step).round() as i32);
                *y = products.sum::<i32>() as f32 * scale * step;
            }
        };
        let int8 = int8_ladder(&m, &[("sum", int8_dot)], matvec, in_one_thread).unwrap();
        let dot_nf4 = |packed: &[u8], absmax: &[f32], x: &[f32]| {
            let mut weights = vec![0.0; x.len()];
            decode(packed, absmax, 0, &mut weights);
            dot(&weights, x)
        };
        let nf4 = nf4_ladder(&m, decode, dot, dot_nf4, in_one_thread).unwrap();
        for ladder in [&float32, &batch, &int8, &nf4] {
            assert_eq!(ladder.agrees(1e-4), Some(true), "{} {:?}", ladder.format, ladder.differences);
            assert!(ladder.missing.is_empty() && ladder.kernels() >= 2);
        }
        let work = |m: usize, n: usize, k: usize, bits| Work {
            operations: (2 * m * n * k) as f64,
            bytes: (n * k) as f64 * bits / 8.0,
        };
        let limits = Limits::measure(1).unwrap();
        assert!(kernels_roofline(&m, [&float32, &batch, &int8, &nf4], &limits, |_, _, _, _| todo!()).is_ok());
        let points = points(&m, [&float32, &batch, &int8, &nf4], work);
        let intensities: Vec<f64> = points.iter().map(|(_, intensity, _)| *intensity).collect();
        assert_eq!(intensities[..3], [0.5, 0.5, 2.0]);
        assert!(intensities.len() == 6 && intensities[3] > 1.9 && intensities[5] == 2.0 / 0.5625, "{intensities:?}");
    }

    #[test]
    fn what_a_thread_panics_with_stands_in_the_table() {
        let m = Matrices::random(2, 64);
        let broken = |_: &[f32], _: &[f32], y: &mut [f32]| assert!(y.is_empty(), "{} rows", y.len());
        let in_another = |_: usize, y: &mut [f32], part: &(dyn Fn(usize, &mut [f32]) + Sync)| {
            std::thread::scope(|scope| drop(scope.spawn(|| part(0, y))));
        };
        let ladder = float32_ladder(&m, &[("one sum", dot)], broken, in_another).unwrap();
        assert_eq!(ladder.missing, ["four rows at once: it panicked: 2 rows", "all threads: it panicked: 2 rows"]);
    }

    #[test]
    fn four_inputs_are_all_looked_at() {
        let m = Matrices::random(6, 128);
        let first = |rows: [&[f32]; 4], x: &[f32]| [dot(rows[0], x); 4];
        let batch = batch_ladder(&m, |w, x, y| each_row(dot, w, x, y), first, in_one_thread).unwrap();
        assert_eq!(batch.agrees(1e-4), Some(false));
    }

    #[test]
    fn unfinished_kernels_are_left_out_before_threads_begin() {
        let m = Matrices::random(2, 64);
        let ladder = float32_ladder(&m, &[("one sum", dot)], |_, _, _| todo!(), in_one_thread).unwrap();
        assert_eq!(ladder.missing, ["four rows at once: not yet", "all threads: not yet"]);
        assert_eq!(ladder.kernels(), 1);
    }
}

//! `largest_by_channel` and `peak_to_rms`: where a tensor is large, and how hard that makes it.

use super::reference::largest;
use crate::cases::{random, row};
use crate::trial::{Close, Trial, all_close, wide};
use crate::{Complaint, Score, ask};

const LARGEST_HINTS: [&str; 3] = [
    "Row by row: which place of the result does number i of a row belong to?",
    "Start with a zero for each channel. For each token (`inputs.chunks_exact(channels)`), each channel keeps the larger of what it \
     has and the magnitude of its number.",
    "`for token in inputs.chunks_exact(channels) { largest.iter_mut().zip(token).for_each(|(most, x)| *most = most.max(x.abs())); }`",
];

/// Checks `largest_by_channel(inputs, channels)`.
pub fn check_largest_by_channel(yours: fn(&[f32], usize) -> Vec<f32>) -> Score {
    let trials = |sizes: &[(usize, usize)]| -> Result<Vec<Trial>, Complaint> {
        let mut rng = random(51);
        let mut trial = |&(tokens, channels): &(usize, usize)| {
            let mut x = row(&mut rng, 1, tokens * channels);
            // A channel of small numbers, and one number below 0, far from all others, and not in the last token.
            x.iter_mut().step_by(channels).for_each(|x| *x *= 0.01);
            if let Some(x) = x.get_mut(channels / 2) {
                *x = -40.0;
            }
            let got = ask(|| Ok(yours(&x, channels)))?;
            let x = wide(&x);
            let signed = (0..channels).map(|c| x.iter().skip(c).step_by(channels).copied().fold(0.0, f64::max));
            let last = x.iter().rev().take(channels).rev().map(|x| x.abs());
            let rows: Vec<f64> = x.chunks_exact(channels).flat_map(|token| largest(token, 1)).collect();
            let sums = (0..channels).map(|c| x.iter().skip(c).step_by(channels).map(|x| x.abs()).sum::<f64>());
            let means = sums.map(|sum| sum / tokens as f64);
            let mistakes = [
                (signed.collect(), "the largest *magnitude*: -40 counts as 40"),
                (rows, "that is one number for each token; a channel is a column, the same place in every token"),
                (means.collect(), "the largest magnitude, not the mean"),
                (last.collect(), "that is what the last token has; keep the largest of all tokens"),
            ];
            Ok(Trial::new(format!("{tokens} tokens of {channels} channels"), &got, largest(&x, channels))
                .mistakes(mistakes.into_iter().filter(|_| tokens > 0)))
        };
        sizes.iter().map(&mut trial).collect()
    };
    let point = |sizes| all_close(&trials(sizes)?, Close::Each(1e-5), |i| format!("channel {i}"), "");
    Score::new("largest_by_channel", LARGEST_HINTS)
        .point("some tokens: the largest magnitude of each channel", point(&[(3, 4), (5, 2), (40, 7)]))
        .point("one token, one channel, none", point(&[(1, 6), (9, 1), (0, 3)]))
}

const PEAK_HINTS: [&str; 3] = [
    "What is the root of the mean of the squares of 3, 0, 0, 0, and how many times as large is 3?",
    "The sum of squares in `f64`, divided by how many numbers there are, and the root of that. The largest magnitude over it. If \
     the root is 0, give 0.",
    "`let square: f64 = x.iter().map(|x| f64::from(*x).powi(2)).sum(); let rms = (square / x.len() as f64).sqrt();`",
];

/// Checks `peak_to_rms(x)`.
pub fn check_peak_to_rms(yours: fn(&[f32]) -> f64) -> Score {
    let trials = |inputs: &[Vec<f32>]| -> Result<Vec<Trial>, Complaint> {
        let trial = |x: &Vec<f32>| {
            let got = ask(|| Ok(yours(x)))?;
            let x = wide(x);
            let (n, square) = (x.len() as f64, x.iter().map(|x| x * x).sum::<f64>());
            let mean = x.iter().sum::<f64>() / n;
            let spread = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
            let magnitudes = x.iter().map(|x| x.abs()).sum::<f64>() / n;
            let (peak, signed) = (
                x.iter().fold(0.0_f64, |most, x| most.max(x.abs())),
                x.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            );
            let of = |peak: f64, root: f64| vec![if root > 0.0 { peak / root } else { 0.0 }];
            let mistakes = vec![
                (of(signed, (square / n).sqrt()), "the peak is the largest *magnitude*"),
                (of(peak, square.sqrt()), "the root of the *mean* square, not of the sum"),
                (of(peak, square / n), "the root of the mean square is missing its root"),
                (vec![peak / spread.sqrt()], "the mean is not taken off first"),
                (of(peak, magnitudes), "squares, not magnitudes: the root of the mean of squares"),
                (vec![(square / n).sqrt() / peak], "the other way round: the peak over the root of the mean square"),
            ];
            let what = format!("{} numbers", x.len());
            Ok(Trial { what, got: vec![got], expected: of(peak, (square / n).sqrt()), mistakes })
        };
        inputs.iter().map(trial).collect()
    };
    let mut rng = random(52);
    let mut of = |kind, n| row(&mut rng, kind, n);
    let low = |mut x: Vec<f32>| {
        x[1] = -25.0;
        x
    };
    let (alike, far) =
        ([of(0, 40), vec![2.0; 7], vec![-3.0], of(3, 30)], [low(of(1, 300)), of(2, 5000), low(of(4, 64))]);
    let long = [vec![0.001; 70_000].into_iter().chain([900.0]).collect(), vec![1e19, -2e19, 3e18]];
    let if_nan = "for numbers that are all 0, or none at all, the answer is 0";
    let point =
        |inputs: &[Vec<f32>]| all_close(&trials(inputs)?, Close::Each(1e-6), |_| "the ratio".to_owned(), if_nan);
    Score::new("peak_to_rms", PEAK_HINTS)
        .point("numbers of about one size", point(&alike))
        .point("one far above the rest, and one far below 0", point(&far))
        .point("many small numbers, large squares, and zeros", point(&[&long[..], &[vec![0.0; 5], vec![]]].concat()))
}

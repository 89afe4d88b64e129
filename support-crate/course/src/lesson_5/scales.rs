//! `smoothing`, `fold_scales`, `awq_scales` and `best_scales`: what channels are divided by.

use std::cell::RefCell;

use rand::Rng;
use rand::rngs::StdRng;

use crate::cases::random;
use crate::trial::{Close, Trial, all_close, wide};
use crate::{Complaint, Score, ask, changed};

const SMOOTHING_HINTS: [&str; 3] = [
    "With an alpha of 1, what is left of a channel's inputs after they are divided by the scale? With 0, what of its weights?",
    "For each channel, the inputs' magnitude to the power alpha, over the weights' magnitude to the power 1 - alpha (`powf`). If one of \
     the two is 0, the scale is 1.",
    "`inputs.iter().zip(weights).map(|(x, w)| if *x > 0.0 && *w > 0.0 { x.powf(alpha) / w.powf(1.0 - alpha) } else { 1.0 }).collect()`",
];

/// Magnitudes over three powers of ten.
fn magnitudes(rng: &mut StdRng, n: usize) -> Vec<f32> {
    (0..n).map(|_| 10.0_f32.powf(rng.random_range(-1.5..1.5))).collect()
}

/// Checks `smoothing(inputs, weights, alpha)`.
pub fn check_smoothing(yours: fn(&[f32], &[f32], f32) -> Vec<f32>) -> Score {
    let trials = |alphas: &[f32], zeros: bool| -> Result<Vec<Trial>, Complaint> {
        let mut rng = random(55);
        let mut trials = Vec::new();
        for (&alpha, n) in alphas.iter().zip([4, 1, 9, 30].into_iter().cycle()) {
            let [mut inputs, mut weights] = [n, n].map(|n| magnitudes(&mut rng, n));
            let least = if zeros { 0.0 } else { 1e-9 };
            (inputs[0], weights[n - 1]) = (least, least);
            let got = ask(|| Ok(yours(&inputs, &weights, alpha)))?;
            let of = |scale: &dyn Fn(f64, f64, f64) -> f64| -> Vec<f64> {
                let one = |(x, w): (&f32, &f32)| {
                    if *x > 0.0 && *w > 0.0 { scale((*x).into(), (*w).into(), alpha.into()) } else { 1.0 }
                };
                inputs.iter().zip(&weights).map(one).collect()
            };
            let expected = of(&|x, w, a| x.powf(a) / w.powf(1.0 - a));
            let mistakes = [
                (
                    of(&|x, w, a| x.powf(1.0 - a) / w.powf(a)),
                    "alpha is the inputs' power, and 1 - alpha that of the weights",
                ),
                (of(&|x, w, a| x.powf(a) * w.powf(1.0 - a)), "over the weights' power, not times"),
                (of(&|x, w, a| x.powf(a) / w.powf(a)), "the weights' power is 1 - alpha"),
                (
                    of(&|x, w, a| w.powf(1.0 - a) / x.powf(a)),
                    "the other way round: large inputs are divided by a large scale",
                ),
                (of(&|x, _, a| x.powf(a)), "the weights count too"),
            ];
            let what = format!("{n} channels, first input and last weight {least}, alpha {alpha}");
            trials.push(Trial::new(what, &got, expected).mistakes(mistakes));
        }
        Ok(trials)
    };
    let if_nan = "where inputs or weights are all 0, the scale is 1";
    let point = |alphas, zeros| all_close(&trials(alphas, zeros)?, Close::Each(1e-5), |i| format!("scale {i}"), if_nan);
    Score::new("smoothing", SMOOTHING_HINTS)
        .point("alpha 0.5", point(&[0.5; 4], false))
        .point("any alpha from 0 to 1", point(&[0.3, 0.85, 0.0, 1.0, 0.6], false))
        .point("channels without inputs or without weights", point(&[0.5, 0.5, 1.0, 0.0], true))
}

const FOLD_HINTS: [&str; 3] = [
    "The norm gives `norm[c]` times something. By what must its scale change for channel c to be divided by `scales[c]`?",
    "Each number of the norm is divided by its scale. Each weight of column c, in every row, is multiplied by scale c.",
    "`norm.iter_mut().zip(scales).for_each(|(n, s)| *n /= s);` and the same for each `row` of `weights.chunks_exact_mut(scales.len())`, \
     with `*=`",
];

/// Checks `fold_scales(norm, weights, scales)`.
pub fn check_fold_scales(yours: fn(&mut [f32], &mut [f32], &[f32])) -> Score {
    // Which part: the norm, or the weights.
    let trials = |of_norm: bool, sizes: &[(usize, usize)]| -> Result<Vec<Trial>, Complaint> {
        let mut rng = random(56);
        let mut trial = |&(outputs, channels): &(usize, usize)| {
            let scales = magnitudes(&mut rng, channels);
            let signs = [1.0_f32, -1.0, 1.0, 0.0, 1.0];
            let [norm, weights] = [channels, outputs * channels].map(|n| -> Vec<f32> {
                magnitudes(&mut rng, n).iter().zip(signs.iter().cycle()).map(|(x, sign)| sign * x).collect()
            });
            let given = (norm.clone(), weights.clone());
            let (own_norm, own_weights) = changed(given, |(norm, weights)| yours(norm, weights, &scales))?;
            let s = wide(&scales);
            let columns = |x: &[f32], power: i32| -> Vec<f64> {
                wide(x).iter().zip(s.iter().cycle()).map(|(x, s)| x * s.powi(power)).collect()
            };
            let rows: Vec<f64> =
                weights.iter().enumerate().map(|(i, w)| f64::from(*w) * s[i / channels % channels]).collect();
            let what = format!("{outputs} outputs, {channels} channels");
            Ok(match of_norm {
                true => Trial::new(what, &own_norm, columns(&norm, -1)).mistakes([
                    (columns(&norm, 1), "the norm is divided by the scales, and the weights are multiplied"),
                    (wide(&norm), "the norm is divided by the scales too, or the function changes"),
                ]),
                false => Trial::new(what, &own_weights, columns(&weights, 1)).mistakes([
                    (columns(&weights, -1), "what the norm is divided by, the weights are multiplied by"),
                    (wide(&weights), "the weights are multiplied by the scales, or the function changes"),
                    (rows, "a scale belongs to a channel, which is a *column* of the weights"),
                ]),
            })
        };
        sizes.iter().map(&mut trial).collect()
    };
    let (sizes, if_nan) = ([(3, 3), (4, 2), (1, 6), (5, 1), (7, 12)], "a scale of the norm may be 0");
    let point = |of_norm, name: &'static str| {
        all_close(&trials(of_norm, &sizes)?, Close::Each(1e-5), |i| format!("{name} {i}"), if_nan)
    };
    Score::new("fold_scales", FOLD_HINTS)
        .point("the norm gives each channel over its scale", point(true, "channel"))
        .point("the weights take it back, column by column", point(false, "weight"))
}

const AWQ_HINTS: [&str; 3] = [
    "What are the powers of 4 and 0.25 for a power of 0.5, and what number lies between them, as many times above the one as below the \
     other?",
    "Each mean to the power, at least 1e-4. Then all are divided by one number, the root of the smallest times the largest.",
    "`let powers: Vec<f32> = means.iter().map(|mean| mean.powf(power).max(1e-4)).collect();`, smallest and largest by `fold` with \
     `f32::min` and `f32::max`, and `powers.iter().map(|p| p / (smallest * largest).sqrt()).collect()`",
];

/// The scales in double precision.
fn awq(means: &[f32], power: f64) -> Vec<f64> {
    let powers: Vec<f64> = means.iter().map(|mean| f64::from(*mean).powf(power).max(1e-4)).collect();
    let [smallest, largest] = ends(&powers);
    powers.iter().map(|scale| scale / (smallest * largest).sqrt()).collect()
}

fn ends(x: &[f64]) -> [f64; 2] {
    [x.iter().copied().fold(f64::INFINITY, f64::min), x.iter().copied().fold(0.0, f64::max)]
}

/// Checks `awq_scales(means, power)`.
pub fn check_awq_scales(yours: fn(&[f32], f32) -> Vec<f32>) -> Score {
    let trials = |powers: &[f32], zeros: bool| -> Result<Vec<Trial>, Complaint> {
        let mut rng = random(57);
        let mut trials = Vec::new();
        for (&power, n) in powers.iter().zip([5, 1, 12, 40].into_iter().cycle()) {
            let mut means = magnitudes(&mut rng, n);
            // All above 1, or all below.
            let size = [1.0, 1.0, 100.0, 0.01][trials.len() % 4];
            means.iter_mut().for_each(|mean| *mean *= size);
            if zeros {
                means[n / 2] = if n == 12 { 1e-12 } else { 0.0 };
            }
            let got = ask(|| Ok(yours(&means, power)))?;
            let raw: Vec<f64> = means.iter().map(|mean| f64::from(*mean).powf(power.into()).max(1e-4)).collect();
            let [smallest, largest] = ends(&raw);
            let (sum, logs) = (raw.iter().sum::<f64>(), raw.iter().map(|x| x.ln()).sum::<f64>());
            let clamped: Vec<f64> = means.iter().map(|mean| f64::from(mean.max(1e-4)).powf(power.into())).collect();
            let [low, high] = ends(&clamped);
            let over = |by: f64| raw.iter().map(|x| x / by).collect::<Vec<f64>>();
            let mistakes = [
                (
                    over(1.0),
                    "divide all by one number, so that the largest is as far above 1 as the smallest is below it",
                ),
                (over(smallest * largest), "by the *root* of the smallest times the largest"),
                (over(f64::midpoint(smallest, largest)), "the root of their product, not half of their sum"),
                (over(sum / n as f64), "the root of the smallest times the largest, not the mean"),
                (over((logs / n as f64).exp()), "of the smallest and the largest only"),
                (over(largest), "by the root of the smallest times the largest, not by the largest"),
                (awq(&means, -f64::from(power)), "large inputs get large scales: the power is positive"),
                (
                    clamped.iter().map(|x| x / (low * high).sqrt()).collect(),
                    "1e-4 is the least of powers, not of means: first the power, then the larger of it and 1e-4",
                ),
            ];
            trials.push(
                Trial::new(format!("{n} means, power {power}"), &got, awq(&means, power.into())).mistakes(mistakes),
            );
        }
        Ok(trials)
    };
    let if_nan = "no power is below 1e-4, or there is something to divide by 0";
    let point = |powers, zeros| all_close(&trials(powers, zeros)?, Close::Each(1e-4), |i| format!("scale {i}"), if_nan);
    Score::new("awq_scales", AWQ_HINTS)
        .point("power 0.4", point(&[0.4; 4], false))
        .point("any power, and 0: all 1", point(&[0.05, 0.95, 0.3, 0.0, 0.0], false))
        .point("a channel with hardly any inputs, or none", point(&[0.5, 0.5, 0.9, 0.2], true))
}

const BEST_HINTS: [&str; 3] = [
    "`error` is a function: what do you give it, and what do you keep?",
    "For each power, the scales and their error; keep the scales of the least. Start with an infinite error.",
    "`for power in powers { let scales = awq_scales(means, *power); let now = error(&scales); if now < least { (best, least) = (scales, \
     now); } }`",
];

type Search<'a> = dyn Fn(&[f32], &[f32], &dyn Fn(&[f32]) -> f64) -> Vec<f32> + 'a;

/// Checks `best_scales(means, powers, error)`.
pub fn check_best_scales(yours: fn(&[f32], &[f32], &dyn Fn(&[f32]) -> f64) -> Vec<f32>) -> Score {
    // Powers, and an error for each.
    let valleys: [&[(f32, f64)]; 3] = [
        &[(0.1, 9.0), (0.25, 7.0), (0.5, 3.0), (0.75, 8.0)],
        &[(0.0, 4.0), (0.2, 1e9), (0.4, 2.0), (0.6, 5.0), (0.8, 3.0)],
        // Hardly apart.
        &[(0.1, 7.0), (0.3, 2.0 + 2e-9), (0.5, 2.0 + 1e-9), (0.7, 2.0 + 3e-9), (0.9, 8.0)],
    ];
    let ends: [&[(f32, f64)]; 4] = [
        &[(0.0, 1.0), (0.5, 2.0), (0.9, 3.0)],
        &[(0.0, 5.0), (0.5, 4.0), (0.95, 0.5)],
        &[(0.35, 3e12)],
        &[(0.9, 2.0), (0.5, 1.0), (0.1, 4.0), (0.3, 6.0)],
    ];
    let point =
        |kinds: &[&[(f32, f64)]]| all_close(&searches(&yours, kinds)?, Close::Each(1e-4), |i| format!("scale {i}"), "");
    Score::new("best_scales", BEST_HINTS)
        .point("the power with the least error", point(&valleys))
        .point("the first, the last, the only one", point(&ends))
}

fn searches(yours: &Search<'_>, kinds: &[&[(f32, f64)]]) -> Result<Vec<Trial>, Complaint> {
    let mut rng = random(58);
    let mut trials = Vec::new();
    for &kind in kinds {
        let means = magnitudes(&mut rng, 6);
        let powers: Vec<f32> = kind.iter().map(|(power, _)| *power).collect();
        let strange = RefCell::new(None);
        let error = |scales: &[f32]| {
            let is_of = |power: f32| {
                let right = awq(&means, power.into());
                let near = |(got, right): (&f32, f64)| (f64::from(*got) / right - 1.0).abs() < 1e-4;
                scales.len() == right.len() && scales.iter().zip(right).all(near)
            };
            let Some((_, error)) = kind.iter().find(|(power, _)| is_of(*power)) else {
                *strange.borrow_mut() = Some(scales.to_vec());
                return f64::INFINITY;
            };
            *error
        };
        let got = ask(|| Ok(yours(&means, &powers, &error)))?;
        if let Some(scales) = strange.into_inner() {
            return wrong!(
                "`error` was given {scales:?}, which are the scales of none of the powers: give it `awq_scales(means, power)`"
            );
        }
        let of = |one: Option<&(f32, f64)>| one.map_or_else(Vec::new, |(power, _)| awq(&means, (*power).into()));
        let [least, most] =
            [1.0, -1.0].map(|sign| of(kind.iter().min_by(|a, b| (sign * a.1).total_cmp(&(sign * b.1)))));
        let mistakes = [
            (most, "that is the power with the largest error; keep the least"),
            (of(kind.last()), "that is the last power; keep the best"),
            (of(kind.first()), "that is the first power; go on"),
        ];
        trials.push(Trial::new(format!("powers {powers:?}"), &got, least).mistakes(mistakes));
    }
    Ok(trials)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quantlab::model::{Fold, LoadOptions, Site, load_model};

    /// For one site of the library's own search, the same scales.
    #[test]
    fn awq_by_hand_is_the_librarys() {
        let loaded = load_model(&["embedded"], &LoadOptions::default()).unwrap();
        let texts = ["Once upon a time there lived a fisher who had a small boat."];
        let powers: Vec<f32> = (0..20).map(|step| step as f32 / 20.0).collect();
        let own = Fold::scales(&loaded, &texts, "", |site| {
            let error = |power: &f32| {
                let scales: Vec<f32> = awq(&site.means, (*power).into()).iter().map(|x| *x as f32).collect();
                (site.int4_error(&scales, 64).unwrap(), scales)
            };
            let all: Vec<(f64, Vec<f32>)> =
                if site.site == Site::MlpIn { powers.iter().map(error).collect() } else { Vec::new() };
            let best = all.into_iter().min_by(|a, b| a.0.total_cmp(&b.0));
            Ok(best.map_or_else(|| vec![1.0; site.means.len()], |(_, scales)| scales))
        });
        let (own, theirs) = (own.unwrap(), Fold::awq(&loaded, &texts, 64).unwrap());
        let pairs = own.found_scales().zip(theirs.found_scales()).skip(2).step_by(3);
        for (own, theirs) in pairs {
            assert!(own.iter().zip(theirs).all(|(a, b)| (a / b - 1.0).abs() < 1e-3), "{own:?} {theirs:?}");
        }
    }
}

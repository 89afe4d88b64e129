//! Layers of a model with what goes into them: where inputs are large, and what rounding them changes.

use quantlab::error::{Error, Result};
use quantlab::model::{Loaded, Site, SiteNumbers, WeightMatrix, visit_sites};

use super::Per;

/// Rounds numbers in rows of so many columns, with a step for each group, to so many bits.
pub type RoundTo = fn(&[f32], usize, Per, u32) -> Vec<f32>;
/// A scale for each channel, from the largest magnitudes of inputs and of weights, and alpha.
pub type Smoothing = fn(&[f32], &[f32], f32) -> Vec<f32>;
/// What comes out of a layer: inputs, weights, columns, threshold.
pub type LlmInt8 = fn(&[f32], &[f32], usize, f32) -> Vec<f32>;
/// Folds scales into a norm and the weights after it.
pub type FoldScales = fn(&mut [f32], &mut [f32], &[f32]);
/// Turns rows in place, by their signs.
pub type Turn = fn(&mut [f32], &[f32]);

/// Outputs of a layer: `out[t, n] = sum_k inputs[t, k] * weights[n, k]`, with inputs (tokens, columns) and weights (out,
/// columns), row by row; computed by the library's kernels.
pub fn product(inputs: &[f32], weights: &[f32], columns: usize) -> Vec<f32> {
    if columns == 0 {
        return Vec::new();
    }
    let mut out = vec![0.0; inputs.len() / columns * (weights.len() / columns)];
    let rows = out.chunks_exact_mut((weights.len() / columns).max(1));
    for (x, out) in inputs.chunks_exact(columns).zip(rows) {
        WeightMatrix::Float32(weights).multiply(x, out);
    }
    out
}

/// The same of inputs and weights that are rounded, inputs with a step for each of `per` and weights with one for each row.
fn rounded_product(
    inputs: &[f32],
    weights: &[f32],
    columns: usize,
    round_to: RoundTo,
    (per, bits): (Per, u32),
) -> Vec<f32> {
    product(&round_to(inputs, columns, per, bits), &round_to(weights, columns, Per::Row, bits), columns)
}

/// What goes into all layers of a model while it reads some texts. Weights are kept of those that read what the norm before
/// attention gives: queries, keys and values, one below the other.
///
/// # Errors
/// As [`visit_sites`].
pub fn reading(loaded: &Loaded, texts: &[&str]) -> Result<Vec<SiteNumbers>> {
    let mut all = Vec::new();
    visit_sites(loaded, texts, |numbers| {
        let mut numbers = numbers.clone();
        if numbers.site != Site::AttentionIn {
            numbers.weights = Vec::new();
        }
        all.push(numbers);
        Ok(())
    })?;
    Ok(all)
}

/// Of what goes into attention, block by block.
pub(super) fn attention_in(all: &[SiteNumbers]) -> impl Iterator<Item = &SiteNumbers> {
    all.iter().filter(|numbers| numbers.site == Site::AttentionIn)
}

/// Queries, keys and values of a block, with what goes into them.
///
/// # Errors
/// No such block.
pub fn attention_of(all: &[SiteNumbers], block: usize) -> Result<SiteNumbers> {
    let found = attention_in(all).find(|numbers| numbers.layer == block);
    found.cloned().ok_or_else(|| Error::input(format!("the model has no block {block}")))
}

/// The root of the mean square of a change, in percent of that of what was changed.
pub(super) fn percent(changed: &[f32], original: &[f32]) -> f64 {
    let square = |all: &mut dyn Iterator<Item = f64>| all.map(|x| x * x).sum::<f64>();
    let change = square(&mut changed.iter().zip(original).map(|(a, b)| f64::from(a - b)));
    100.0 * (change / square(&mut original.iter().map(|x| f64::from(*x)))).sqrt()
}

fn columns(layer: &SiteNumbers) -> usize {
    layer.channel_of_input.len()
}

/// What rounding the inputs of a layer to 8 bits changes, with a step for each of these: in the inputs, and in what comes out
/// of the layer, in percent.
pub fn roundings(layer: &SiteNumbers, round_to: RoundTo) -> Vec<(Per, f64, f64)> {
    let k = columns(layer);
    let exact = product(&layer.inputs, &layer.weights, k);
    let of = |per| {
        let rounded = round_to(&layer.inputs, k, per, 8);
        (per, percent(&rounded, &layer.inputs), percent(&product(&rounded, &layer.weights, k), &exact))
    };
    Per::ALL.map(of).to_vec()
}

/// A threshold, how many columns reach it, and the error of what comes out, in percent.
pub type Split = (f32, usize, f64);

/// What comes out of a layer with columns kept apart that reach each of these thresholds.
pub fn splits(layer: &SiteNumbers, llm_int8: LlmInt8, thresholds: &[f32]) -> Vec<Split> {
    let k = columns(layer);
    let exact = product(&layer.inputs, &layer.weights, k);
    let of = |&threshold: &f32| {
        let mut apart = vec![false; k];
        layer.inputs.iter().enumerate().for_each(|(i, x)| apart[i % k] |= x.abs() >= threshold);
        let out = llm_int8(&layer.inputs, &layer.weights, k, threshold);
        (threshold, apart.iter().filter(|apart| **apart).count(), percent(&out, &exact))
    };
    thresholds.iter().map(of).collect()
}

/// For each alpha: the error of what comes out of a layer whose inputs and weights are smoothed, folded and rounded to 8 bits
/// (inputs per tensor, weights per row), and the largest error of what comes out without rounding, in percent. The norm
/// before it has scales of 1.
pub fn smoothed(
    layer: &SiteNumbers,
    alphas: &[f32],
    smoothing: Smoothing,
    fold_scales: FoldScales,
    round_to: RoundTo,
) -> Vec<(f32, f64, f64)> {
    let k = columns(layer);
    let exact = product(&layer.inputs, &layer.weights, k);
    let of = |&alpha: &f32| {
        let scales = smoothing(&layer.largest, &layer.largest_weights(), alpha);
        let (mut norm, mut weights) = (vec![1.0; k], layer.weights.clone());
        fold_scales(&mut norm, &mut weights, &scales);
        let inputs: Vec<f32> = layer.inputs.iter().enumerate().map(|(i, x)| x * norm[i % k]).collect();
        let kept = percent(&product(&inputs, &weights, k), &exact);
        let rounded = rounded_product(&inputs, &weights, k, round_to, (Per::Tensor, 8));
        (alpha, percent(&rounded, &exact), kept)
    };
    alphas.iter().map(of).collect()
}

/// What comes out of a layer that is rounded in the same way without scales: its error, in percent.
pub fn unsmoothed(layer: &SiteNumbers, round_to: RoundTo) -> f64 {
    let k = columns(layer);
    let rounded = rounded_product(&layer.inputs, &layer.weights, k, round_to, (Per::Tensor, 8));
    percent(&rounded, &product(&layer.inputs, &layer.weights, k))
}

/// The error of what comes out of a layer in int4, in groups of 64, after its weights were multiplied by AWQ's scales of each
/// power: as a part of that without.
///
/// # Errors
/// As [`SiteNumbers::int4_error`].
pub fn awq_curve(
    layer: &SiteNumbers,
    awq_scales: fn(&[f32], f32) -> Vec<f32>,
    powers: &[f32],
) -> Result<Vec<(f32, f64)>> {
    let plain = layer.int4_error(&vec![1.0; layer.means.len()], GROUP)?;
    let of = |&power: &f32| Ok((power, (layer.int4_error(&awq_scales(&layer.means, power), GROUP)? / plain).sqrt()));
    powers.iter().map(of).collect()
}

/// The size of groups of int4.
pub(super) const GROUP: usize = 64;

/// A random sign for each channel, the same ones each time.
pub fn signs(channels: usize) -> Vec<f32> {
    use rand::Rng;
    let mut rng = crate::cases::random(5);
    (0..channels).map(|_| if rng.random::<bool>() { 1.0 } else { -1.0 }).collect()
}

/// The peak over the root of the mean square of a layer's inputs, before they are turned and after.
pub fn turned_peaks(layer: &SiteNumbers, turn: Turn, peak_to_rms: fn(&[f32]) -> f64) -> Vec<f64> {
    let mut turned = layer.inputs.clone();
    turn(&mut turned, &signs(columns(layer)));
    [&layer.inputs, &turned].map(|inputs| peak_to_rms(inputs)).to_vec()
}

/// A block, and the error of what comes out of its queries, keys and values with inputs and weights of 4 bits, in percent:
/// as they are, and turned.
pub type FourBits = (usize, f64, f64);

/// Inputs with a step for each token, and weights with one for each output, both of 4 bits, in all blocks.
pub fn four_bits(all: &[SiteNumbers], round_to: RoundTo, turn: Turn) -> Vec<FourBits> {
    let of = |layer: &SiteNumbers| {
        let k = columns(layer);
        let exact = product(&layer.inputs, &layer.weights, k);
        let (mut inputs, mut weights) = (layer.inputs.clone(), layer.weights.clone());
        let error = |inputs: &[f32], weights: &[f32]| {
            percent(&rounded_product(inputs, weights, k, round_to, (Per::Row, 4)), &exact)
        };
        let plain = error(&inputs, &weights);
        let signs = signs(k);
        turn(&mut inputs, &signs);
        turn(&mut weights, &signs);
        (layer.layer, plain, error(&inputs, &weights))
    };
    attention_in(all).map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::super::reference::{Grid, turn};
    use super::*;
    use crate::trial::wide;
    use quantlab::model::{Fold, LoadOptions, load_model};

    fn round_to(x: &[f32], columns: usize, per: Per, bits: u32) -> Vec<f32> {
        Grid::new(per, bits).round(&wide(x), columns).0.into_iter().map(|x| x as f32).collect()
    }

    fn peak(x: &[f32]) -> f64 {
        f64::from(x.iter().fold(0.0_f32, |most, x| most.max(x.abs())))
    }

    fn fold_scales(norm: &mut [f32], weights: &mut [f32], scales: &[f32]) {
        norm.iter_mut().zip(scales).for_each(|(norm, scale)| *norm /= scale);
        weights.iter_mut().zip(scales.iter().cycle()).for_each(|(weight, scale)| *weight *= scale);
    }

    #[test]
    fn products_are_those_of_rows() {
        assert_eq!(
            product(&[1.0, 2.0, 3.0, 4.0], &[10.0, 1.0, 0.0, -1.0, 5.0, 5.0], 2),
            [12.0, -2.0, 15.0, 34.0, -4.0, 35.0]
        );
        assert!(product(&[], &[1.0], 1).is_empty() && product(&[1.0], &[], 0).is_empty());
        assert!((percent(&[3.0, 4.0], &[3.0, 5.0]) - 100.0 / 34.0_f64.sqrt()).abs() < 1e-9);
    }

    #[test]
    fn outliers_hurt_a_layer_and_cures_help_it() {
        let texts = ["Once upon a time there lived a fisher who had a small boat."];
        let fold = Some(Fold::outliers(4, 60.0, 3).unwrap());
        let loaded = load_model(&["embedded"], &LoadOptions { fold, ..LoadOptions::default() }).unwrap();
        let all = reading(&loaded, &texts).unwrap();
        assert_eq!(all.len(), 3 * loaded.model.info().n_layer);
        let layer = attention_of(&all, 1).unwrap();
        assert!(layer.weights.len() == 3 * 256 * 256 && attention_of(&all, 99).is_err());
        assert!(
            all.iter().filter(|numbers| numbers.site != Site::AttentionIn).all(|numbers| numbers.weights.is_empty())
        );

        let rounded = roundings(&layer, round_to);
        assert!(rounded[0].2 > rounded[2].2 && rounded[1].2 > rounded[2].2, "{rounded:?}");
        let ones: Smoothing = |inputs, _, _| vec![1.0; inputs.len()];
        let smooth: Smoothing = |inputs, weights, alpha| {
            inputs.iter().zip(weights).map(|(x, w)| x.powf(alpha) / w.powf(1.0 - alpha)).collect()
        };
        let without = unsmoothed(&layer, round_to);
        let plain = smoothed(&layer, &[0.5], ones, fold_scales, round_to);
        assert!((plain[0].1 - without).abs() < 1e-6, "{plain:?} {without}");
        let half = smoothed(&layer, &[0.5], smooth, fold_scales, round_to);
        assert!(half[0].1 < 0.5 * without && half[0].2 < 1e-3, "{half:?} {without}");

        let peaks = turned_peaks(&layer, turn, peak);
        assert!(peaks[1] < 0.5 * peaks[0], "{peaks:?}");
        let four = four_bits(&all, round_to, turn);
        assert_eq!(four.len(), loaded.model.info().n_layer);
        assert!(four.iter().all(|(_, plain, turned)| turned < plain), "{four:?}");
        let curve = awq_curve(&layer, |means, power| means.iter().map(|mean| mean.powf(power)).collect(), &[0.0, 0.5]);
        let curve = curve.unwrap();
        assert!((curve[0].1 - 1.0).abs() < 1e-6 && curve[1].1 < 1.0, "{curve:?}");
        let split = splits(&layer, |inputs, weights, columns, _| product(inputs, weights, columns), &[0.0, 1e9]);
        assert_eq!((split[0].1, split[1].1, split[1].2), (256, 0, 0.0));
        assert_eq!((signs(64), signs(64).iter().all(|sign| sign.abs() == 1.0)), (signs(64), true));
    }
}

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use super::*;
use crate::quant::AffineInt4;

/// Pseudo-random numbers from -1 to 1.
fn numbers(len: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(747_796_405).wrapping_add(1);
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / 8_388_608.0 - 1.0
    };
    (0..len).map(|_| next()).collect()
}

/// Inputs with some directions in common, and features of different sizes: (tokens, columns).
fn correlated(tokens: usize, columns: usize, seed: u32) -> Vec<f32> {
    let directions = 12;
    let (common, of_tokens) = (numbers(directions * columns, seed), numbers(tokens * directions, seed + 1));
    let (own, sizes) = (numbers(tokens * columns, seed + 2), numbers(columns, seed + 3));
    let input = |token: usize, column: usize| {
        let shared: f32 =
            (0..directions).map(|i| of_tokens[token * directions + i] * common[i * columns + column]).sum();
        (shared + 0.5 * own[token * columns + column]) * (1.1 + sizes[column]).powi(2)
    };
    (0..tokens * columns).map(|i| input(i / columns, i % columns)).collect()
}

fn hessian(inputs: &[f32], columns: usize) -> Hessian {
    let mut hessian = Hessian::new(columns).unwrap();
    hessian.add(inputs).unwrap();
    hessian
}

/// `tr((W - Q) H (W - Q)^T)`: the sum of squares of what the outputs change by.
fn output_error(weights: &[f32], quantized: &AffineInt4, inputs: &[f32]) -> f64 {
    let columns = quantized.columns();
    let changes: Vec<f32> = weights.iter().zip(quantized.dequantize()).map(|(a, b)| a - b).collect();
    let output = |x: &[f32], change: &[f32]| -> f64 {
        x.iter().zip(change).map(|(x, change)| f64::from(*x) * f64::from(*change)).sum()
    };
    let outputs = inputs.chunks(columns).flat_map(|x| changes.chunks(columns).map(move |change| output(x, change)));
    outputs.map(|output| output * output).sum()
}

fn square_error(weights: &[f32], quantized: &AffineInt4) -> f64 {
    weights.iter().zip(quantized.dequantize()).map(|(a, b)| f64::from(a - b).powi(2)).sum()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn gptq_changes_outputs_less_than_rounding_to_nearest(
        seed in 0..1000_u32,
        groups in prop_oneof![Just((96, 32)), Just((192, 64)), Just((192, 192)), Just((320, 160))],
        tokens in 40..400_usize,
        act_order in any::<bool>(),
        clipping in any::<bool>(),
    ) {
        let (columns, group) = groups;
        let (inputs, weights) = (correlated(tokens, columns, seed), numbers(9 * columns, seed + 7));
        let hessian = hessian(&inputs, columns);
        for (bits, share) in [(4, 1.0), (3, 0.5), (2, 0.5)] {
            let nearest = AffineInt4::fitted(&weights, columns, group, bits, Fit::Nearest).unwrap();
            let options = GptqOptions { act_order, clipping };
            let gptq = AffineInt4::gptq(&weights, &hessian, group, bits, options).unwrap();
            let [gptq, nearest] = [gptq, nearest].map(|quantized| output_error(&weights, &quantized, &inputs));
            prop_assert!(gptq < share * nearest, "{bits} bits: {gptq} {nearest}");
        }
    }

    #[test]
    fn clipping_never_leaves_a_larger_square_error(
        mut weights in prop::collection::vec(-1.0..1.0_f32, 128),
        power in 1..6_i32,
        shift in -0.5..0.5_f32,
        bits in 2..=4_u32,
    ) {
        weights.iter_mut().for_each(|weight| *weight = weight.powi(power) + shift);
        let [nearest, clipped] = [Fit::Nearest, Fit::Clipping]
            .map(|fit| square_error(&weights, &AffineInt4::fitted(&weights, 128, 32, bits, fit).unwrap()));
        prop_assert!(clipped <= nearest * (1.0 + 1e-5), "{clipped} {nearest}");
    }

    /// What HQQ starts from: steps between the smallest and the largest weight.
    #[test]
    fn hqq_leaves_no_larger_mean_error_than_its_beginning(
        mut weights in prop::collection::vec(-1.0..1.0_f32, 64),
        scale in prop_oneof![Just(1e-6_f32), Just(0.05), Just(40.0)],
        bits in 2..=4_u32,
    ) {
        weights.iter_mut().for_each(|weight| *weight *= weight.abs() * scale);
        let quantized = AffineInt4::fitted(&weights, 64, 64, bits, Fit::Hqq).unwrap();
        let found: f32 = weights.iter().zip(quantized.dequantize()).map(|(a, b)| (a - b).abs()).sum();
        let (step, low) = (quantized.scales()[0], weights.iter().copied().fold(f32::INFINITY, f32::min));
        let last = f32::from((1_u8 << bits) - 1);
        let begun = |weight: f32| low + step * ((weight - low) / step).round_ties_even().min(last);
        let begun: f32 = weights.iter().map(|&weight| (weight - begun(weight)).abs()).sum();
        prop_assert!(found <= begun * (1.0 + 1e-4) + 1e-12, "{found} {begun}");
    }

    #[test]
    fn layers_share_a_hessian_as_long_as_they_read_the_same(reads in prop::collection::vec(
        prop::collection::vec((0..4_usize, 0..2_u32), 1..8), 1..4)
    ) {
        let columns = 5;
        let mut collector = HessianCollector::default();
        let mut apart: Vec<Option<Hessian>> = vec![None; 4];
        for (layer, seed) in reads.into_iter().flatten() {
            let inputs = numbers(3 * columns, seed);
            collector.observe(&layer.to_string(), &inputs, columns).unwrap();
            apart[layer].get_or_insert_with(|| Hessian::new(columns).unwrap()).add(&inputs).unwrap();
        }
        let hessians = collector.finish().unwrap();
        for (layer, expected) in apart.iter().enumerate() {
            let Some(expected) = expected else { continue };
            let found = hessians.layer(&layer.to_string()).unwrap();
            prop_assert_eq!(found.tokens(), expected.tokens());
            for row in 0..columns {
                same(found.row(row), expected.row(row))?;
            }
        }
        prop_assert!(hessians.count() <= hessians.layers().count());
    }
}

fn same(found: &[f32], expected: &[f32]) -> Result<(), TestCaseError> {
    prop_assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-4), "{found:?} {expected:?}");
    Ok(())
}

#[test]
fn a_hessian_is_the_sum_of_products_whatever_its_size() {
    for (tokens, columns) in [(1, 1), (7, 3), (600, 130), (33, 384), (1025, 40)] {
        let inputs = numbers(tokens * columns, 3);
        let mut hessian = Hessian::new(columns).unwrap();
        let half = tokens / 2 * columns;
        if half > 0 {
            hessian.add(&inputs[..half]).unwrap();
        }
        hessian.add(&inputs[half..]).unwrap();
        assert_eq!(hessian.tokens(), tokens);
        let product =
            |i: usize, j: usize| -> f64 { inputs.chunks(columns).map(|x| f64::from(x[i]) * f64::from(x[j])).sum() };
        for i in 0..columns {
            for (j, found) in hessian.row(i).iter().enumerate() {
                assert!((f64::from(*found) - product(i, j)).abs() < 1e-3, "{tokens} {columns} {i} {j}: {found}");
            }
        }
    }
}

/// Where nothing is known of the inputs but that each stands for itself, no column can make up for another.
#[test]
fn without_correlations_gptq_rounds_to_nearest() {
    let (columns, weights) = (128, numbers(4 * 128, 1));
    let mut each = vec![0.0; columns * columns];
    (0..columns).for_each(|i| each[i * columns + i] = 1.0 + i as f32);
    // Inputs that were always 0 too.
    each[5 * columns + 5] = 0.0;
    for inputs in [each, vec![0.0; 2 * columns]] {
        for act_order in [false, true] {
            let options = GptqOptions { act_order, clipping: false };
            let gptq = AffineInt4::gptq(&weights, &hessian(&inputs, columns), 32, 4, options).unwrap();
            assert_eq!(gptq, AffineInt4::quantize(&weights, columns, 32).unwrap());
        }
    }
}

/// Fewer tokens than columns, inputs that are the same in all, and inputs of very different sizes.
#[test]
fn singular_hessians_are_no_obstacle() {
    let (columns, weights) = (256, numbers(3 * 256, 2));
    let few = correlated(3, columns, 5);
    let equal = vec![0.7; 100 * columns];
    let sizes: Vec<f32> = (0..50 * columns).map(|i| 10_f32.powi((i % columns) as i32 % 18 - 9)).collect();
    for (what, inputs) in [("few", few), ("equal", equal), ("sizes", sizes)] {
        let hessian = hessian(&inputs, columns);
        let nearest = AffineInt4::fitted(&weights, columns, 64, 3, Fit::Nearest).unwrap();
        let nearest = output_error(&weights, &nearest, &inputs);
        for act_order in [false, true] {
            let options = GptqOptions { act_order, clipping: false };
            let gptq = AffineInt4::gptq(&weights, &hessian, 64, 3, options).unwrap();
            let restored = gptq.dequantize();
            assert!(restored.iter().all(|number| number.abs() < 3.0), "{what}");
            let error = output_error(&weights, &gptq, &inputs);
            assert!(error < nearest, "{what}, {act_order}: {error} {nearest}");
        }
    }
}

/// Rows that threads quantize in parts are those of the whole.
#[test]
fn a_row_does_not_depend_on_its_neighbours() {
    let (columns, weights) = (192, numbers(70 * 192, 9));
    let hessian = hessian(&correlated(300, columns, 4), columns);
    let gptq = |weights| AffineInt4::gptq(weights, &hessian, 32, 4, GptqOptions::default()).unwrap();
    let (all, some) = (gptq(&weights), gptq(&weights[64 * columns..]));
    assert_eq!(all.packed()[64 * columns / 2..], *some.packed());
    assert_eq!(all.scales()[64 * columns / 32..], *some.scales());
}

#[test]
fn codes_of_fewer_bits_are_smaller() {
    let weights = numbers(256, 4);
    let hessian = hessian(&correlated(80, 64, 4), 64);
    for (bits, last) in [(2, 3), (3, 7), (4, 15)] {
        let made = [
            AffineInt4::fitted(&weights, 64, 32, bits, Fit::Nearest).unwrap(),
            AffineInt4::fitted(&weights, 64, 32, bits, Fit::Clipping).unwrap(),
            AffineInt4::fitted(&weights, 64, 32, bits, Fit::Hqq).unwrap(),
            AffineInt4::gptq(&weights, &hessian, 32, bits, GptqOptions::default()).unwrap(),
        ];
        for quantized in made {
            let largest = quantized.packed().iter().flat_map(|byte| [byte >> 4, byte & 15]).max();
            assert_eq!(largest, Some(last));
        }
    }
}

#[test]
fn what_cannot_be_made_says_so() {
    let (hessian, weights) = (hessian(&correlated(80, 64, 4), 64), vec![0.5; 128]);
    let gptq = |weights: &[f32], group, bits| {
        AffineInt4::gptq(weights, &hessian, group, bits, GptqOptions::default()).unwrap_err().to_string()
    };
    assert!(gptq(&weights, 32, 5).contains("5 bits"));
    assert!(gptq(&weights, 48, 4).contains("groups cannot have 48"));
    assert!(gptq(&weights, 96, 4).contains("64 inputs"));
    assert!(gptq(&weights[..100], 32, 4).contains("100 weights in rows of 64"));
    for fit in [Fit::Nearest, Fit::Clipping, Fit::Hqq] {
        for (number, expected) in [(f32::NAN, "weight 70 is NaN"), (2e6, "no scale in float16")] {
            let mut weights = weights.clone();
            weights[70] = number;
            let text = AffineInt4::fitted(&weights, 64, 32, 4, fit).unwrap_err().to_string();
            assert!(text.contains(expected), "{text}");
            assert!(gptq(&weights, 32, 4).contains(expected));
        }
    }
    let mut hessian = Hessian::new(3).unwrap();
    assert!(hessian.add(&[1.0; 4]).unwrap_err().to_string().contains("rows of 3"));
    assert!(hessian.add(&[1.0, f32::INFINITY, 0.0]).unwrap_err().to_string().contains("input 1 is inf"));
    assert_eq!((hessian.tokens(), hessian.diagonal()), (0, vec![0.0; 3]));
    assert!(Hessian::new(usize::MAX / 4).unwrap_err().to_string().contains("no memory for a Hessian"));
    let observe = |inputs: &[f32], channels| {
        let mut collector = HessianCollector::default();
        collector.observe("q_proj", &[1.0; 6], 3).unwrap();
        collector.observe("q_proj", inputs, channels).and_then(|()| collector.finish()).unwrap_err().to_string()
    };
    assert!(observe(&[1.0; 4], 2).contains("q_proj: 2 inputs for each token, but 3 before"));
    assert!(observe(&[f32::NAN; 3], 3).contains("q_proj: input 0 is NaN"));
    assert!(observe(&[1e30; 3], 3).contains("q_proj: the squares"));
    // What was refused leaves nothing half done.
    let mut collector = HessianCollector::default();
    collector.observe("a", &[1.0, 2.0], 2).unwrap();
    assert!(collector.observe("a", &[1.0; 3], 3).is_err());
    collector.observe("b", &[1.0], 1).unwrap();
    assert!(collector.observe("a", &[1.0], 1).is_err(), "the same inputs as b");
    let found = collector.finish().unwrap();
    assert_eq!(found.layers().collect::<Vec<_>>(), ["a", "b"]);
    assert!(HessianCollector::default().finish().unwrap_err().to_string().contains("no layer was observed"));
}

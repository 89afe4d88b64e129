//! Products of W4A8 against their definition.

use proptest::prelude::*;

use super::super::tests::product;
use super::*;
use crate::test_numbers::{assert_close, numbers};

struct Numbers {
    packed: Vec<u8>,
    scales: Vec<f32>,
    minima: Vec<f32>,
}

impl Numbers {
    fn new(n: usize, k: usize, group: usize, seed: u32) -> Self {
        Self {
            packed: numbers(n * k / 2, seed).iter().map(|x| (x * 127.0) as i8 as u8).collect(),
            scales: numbers(n * k / group, seed ^ 1).iter().map(|x| x.abs() + 0.1).collect(),
            minima: numbers(n * k / group, seed ^ 2).iter().map(|x| 4.0 * x).collect(),
        }
    }

    fn view(&self, group: usize) -> GroupedInt4<'_> {
        GroupedInt4 { packed: &self.packed, scales: &self.scales, minima: &self.minima, group }
    }

    fn weight(&self, i: usize, group: usize) -> f64 {
        let byte = self.packed[i / 2];
        let code = if i.is_multiple_of(2) { byte >> 4 } else { byte & 15 };
        f64::from(code) * f64::from(self.scales[i / group]) + f64::from(self.minima[i / group])
    }
}

/// Inputs as they are after rounding, in float64.
fn rounded(x: &[f32]) -> Vec<f64> {
    x.chunks(BLOCK)
        .flat_map(|block| {
            let largest = block.iter().fold(0.0_f32, |largest, x| largest.max(x.abs()));
            let factor = int8_factor(largest);
            block.iter().map(move |x| f64::from((x * factor).round_ties_even()) * f64::from(largest) / 127.0)
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn products_are_those_of_rounded_inputs(
        m in prop_oneof![1..10_usize, Just(130)],
        n in 1..30_usize,
        (units, groups) in (1..7_usize, 1..7_usize),
        seed: u32,
    ) {
        let (group, k) = (BLOCK * units, BLOCK * units * groups);
        let numbers_of = Numbers::new(n, k, group, seed);
        let mut x = numbers(m * k, seed ^ 3);
        // Blocks of other magnitudes, and of zeros.
        x.chunks_mut(BLOCK).enumerate().for_each(|(i, block)| {
            block.iter_mut().for_each(|x| *x *= [1.0, 100.0, 0.0, 1e-3][i % 4]);
        });
        let inputs = rounded(&x);
        let weights: Vec<f64> = (0..n * k).map(|i| numbers_of.weight(i, group)).collect();
        let expected: Vec<f64> = inputs
            .chunks(k)
            .flat_map(|x| weights.chunks(k).map(move |row| x.iter().zip(row).map(|(x, w)| x * w).sum()))
            .collect();
        for isa in Isa::available() {
            let together = product(isa, &x, &numbers_of.view(group), n, k);
            assert_close(&together, &expected, 2e-6 * k as f64 * 100.0);
            let alone: Vec<f32> =
                x.chunks_exact(k).flat_map(|x| product(isa, x, &numbers_of.view(group), n, k)).collect();
            prop_assert!(together == alone, "{isa}: not the same to the bit");
        }
    }
}

#[test]
fn what_is_no_number_stays_in_its_row() {
    let (n, k) = (5, 96);
    let numbers_of = Numbers::new(n, k, 32, 1);
    for bad in [f32::NAN, f32::INFINITY] {
        let mut x = numbers(3 * k, 2);
        x[k + 40] = bad;
        for isa in Isa::available() {
            let out = product(isa, &x, &numbers_of.view(32), n, k);
            let finite: Vec<bool> = out.iter().map(|y| y.is_finite()).collect();
            assert_eq!(finite, [[true; 5], [false; 5], [true; 5]].concat(), "{isa}: {out:?}");
        }
    }
}

//! Products of integers in groups against their definition.

use half::f16;
use proptest::prelude::*;

use super::super::scales::SUPER_GROUP;
use super::super::tests::product;
use super::super::{Epilogue, Inputs, Matrix, pack_codes};
use super::*;
use crate::isa::Isa;
use crate::rounding::int8_factor;
use crate::test_numbers::{assert_close, cases, numbers};
use crate::threads::thread_scope;

/// A matrix in every way that scales and minima are kept.
#[derive(Debug, Clone, Copy)]
enum Kept {
    Float32,
    Float16,
    Nested,
}

struct Numbers {
    codes: Vec<u8>,
    scales: (Vec<f32>, Vec<f16>, Vec<i8>),
    minima: (Vec<f32>, Vec<f16>, Vec<i8>),
    of_256: Vec<f16>,
    /// What they stand for: (n, k).
    weights: Vec<f64>,
}

#[derive(Debug, Clone, Copy)]
struct Format {
    bits: CodeBits,
    offset: u8,
    kept: Kept,
    has_minima: bool,
    group: usize,
}

impl Numbers {
    fn new(n: usize, k: usize, format: Format, seed: u32) -> Self {
        let Format { bits, offset, kept, has_minima, group } = format;
        let (panels, groups) = (n.div_ceil(PANEL), k / group);
        let len = panels * PANEL * groups;
        let scales: Vec<f32> = numbers(len, seed ^ 1).iter().map(|x| x.abs() + 0.1).collect();
        let minima: Vec<f32> = numbers(len, seed ^ 2).iter().map(|x| 4.0 * x).collect();
        let halved = |numbers: &[f32]| numbers.iter().copied().map(f16::from_f32).collect::<Vec<_>>();
        let steps = |numbers: &[f32]| numbers.iter().map(|x| (x * 30.0) as i8).collect::<Vec<_>>();
        let of_256 = halved(&numbers(panels * PANEL * k.div_ceil(SUPER_GROUP), seed ^ 4));
        let kept_numbers = |numbers: &[f32]| (numbers.to_vec(), halved(numbers), steps(numbers));
        let mut this = Self {
            codes: vec![0; panels * bits.panel_bytes(k)],
            scales: kept_numbers(&scales),
            minima: kept_numbers(&minima),
            of_256,
            weights: Vec::new(),
        };
        let random = numbers(n * k, seed);
        for row in 0..n {
            let codes: Vec<u8> = random[row * k..(row + 1) * k]
                .iter()
                .map(|x| match bits {
                    CodeBits::Four => (x * 127.0) as i8 as u8 & 15,
                    CodeBits::Six => (x * 127.0) as i8 as u8 & 63,
                    // The smallest too.
                    CodeBits::Eight if *x < -0.98 => 0x80,
                    CodeBits::Eight => (x * 127.0) as i8 as u8,
                })
                .collect();
            let bytes = bits.panel_bytes(k);
            pack_codes(bits, &codes, row % PANEL, &mut this.codes[row / PANEL * bytes..][..bytes]);
            for (column, code) in codes.iter().enumerate() {
                let code = match bits {
                    CodeBits::Four | CodeBits::Six => f64::from(*code) - f64::from(offset),
                    CodeBits::Eight => f64::from(*code as i8),
                };
                let at = (row / PANEL * groups + column / group) * PANEL + row % PANEL;
                let at_256 = (row / PANEL * (k / SUPER_GROUP) + column / SUPER_GROUP) * PANEL + row % PANEL;
                let number = |(wide, narrow, steps): &(Vec<f32>, Vec<f16>, Vec<i8>)| match kept {
                    Kept::Float32 => f64::from(wide[at]),
                    Kept::Float16 => narrow[at].to_f64(),
                    Kept::Nested => f64::from(steps[at]) * this.of_256[at_256].to_f64(),
                };
                let minimum = if has_minima { number(&this.minima) } else { 0.0 };
                this.weights.push(code * number(&this.scales) + minimum);
            }
        }
        this
    }

    fn view(&self, Format { bits, offset, kept, has_minima, group }: Format) -> GroupedInt<'_> {
        fn view<'a>(
            kept: Kept,
            (wide, narrow, steps): &'a (Vec<f32>, Vec<f16>, Vec<i8>),
            of_256: &'a [f16],
        ) -> Scales<'a> {
            match kept {
                Kept::Float32 => Scales::Float32(wide),
                Kept::Float16 => Scales::Float16(narrow),
                Kept::Nested => Scales::Nested(steps, of_256),
            }
        }
        let view = |numbers| view(kept, numbers, &self.of_256);
        let minima = has_minima.then(|| view(&self.minima));
        GroupedInt { codes: &self.codes, bits, offset, scales: view(&self.scales), minima, group }
    }
}

/// Inputs as they are after rounding.
fn rounded(x: &[f32]) -> Vec<f64> {
    x.chunks(BLOCK)
        .flat_map(|block| {
            let largest = block.iter().fold(0.0_f32, |largest, x| largest.max(x.abs()));
            let factor = int8_factor(largest);
            block.iter().map(move |x| f64::from((x * factor).round_ties_even()) * f64::from(largest) / 127.0)
        })
        .collect()
}

fn format() -> impl Strategy<Value = Format> {
    let bits = prop_oneof![
        Just((CodeBits::Four, 0)),
        Just((CodeBits::Four, 8)),
        Just((CodeBits::Six, 0)),
        Just((CodeBits::Six, 32)),
        Just((CodeBits::Eight, 0))
    ];
    let kept = prop_oneof![Just(Kept::Float32), Just(Kept::Float16), Just(Kept::Nested)];
    let group = prop_oneof![Just(16_usize), Just(32), Just(64), Just(128)];
    (bits, kept, any::<bool>(), group).prop_map(|((bits, offset), kept, has_minima, group)| Format {
        bits,
        offset,
        kept,
        has_minima,
        group,
    })
}

proptest! {
    #![proptest_config(cases(96))]

    #[test]
    fn products_are_those_of_rounded_inputs(
        m in prop_oneof![1..18_usize, Just(23), Just(31), Just(32), Just(33), Just(129)],
        n in prop_oneof![1..50_usize, Just(160), Just(161)],
        units in 1..7_usize,
        format in format(),
        seed: u32,
    ) {
        let k = units * if matches!(format.kept, Kept::Nested) { SUPER_GROUP } else { format.group.max(BLOCK) };
        let matrix = Numbers::new(n, k, format, seed);
        let mut x = numbers(m * k, seed ^ 3);
        // Blocks of other magnitudes, and of zeros.
        x.chunks_mut(BLOCK).enumerate().for_each(|(i, block)| {
            block.iter_mut().for_each(|x| *x *= [1.0, 100.0, 0.0, 1e-3][i % 4]);
        });
        let inputs = rounded(&x);
        let sum = |x: &[f64], row: &[f64]| x.iter().zip(row).map(|(x, w)| x * w).sum::<f64>();
        let size = |x: &[f64], row: &[f64]| x.iter().zip(row).map(|(x, w)| (x * w).abs()).sum::<f64>();
        let rows = || inputs.chunks(k).flat_map(|x| matrix.weights.chunks(k).map(move |row| (x, row)));
        let expected: Vec<f64> = rows().map(|(x, row)| sum(x, row)).collect();
        let largest = rows().map(|(x, row)| size(x, row)).fold(0.0, f64::max);
        for isa in Isa::available() {
            let together = product(isa, &x, &matrix.view(format), n, k);
            assert_close(&together, &expected, 1e-4 + 1e-5 * largest);
            let alone: Vec<f32> =
                x.chunks_exact(k).flat_map(|x| product(isa, x, &matrix.view(format), n, k)).collect();
            prop_assert!(together == alone, "{isa}: not the same to the bit");
        }
    }
}

proptest! {
    #![proptest_config(cases(48))]

    /// The same numbers may also be other rows for each: (2 m, k) or (m, 2 k).
    #[test]
    fn products_that_share_inputs_are_as_alone(
        m in prop_oneof![1..10_usize, Just(257)],
        formats in prop::collection::vec((format(), 1..40_usize, any::<bool>()), 2..5),
        seed: u32,
    ) {
        let k = SUPER_GROUP;
        let x = numbers(2 * m * k, seed);
        for isa in Isa::available() {
            let (inputs, scope) = (Inputs::new(&x), thread_scope().with_isa(isa));
            for (at, &(format, n, wide)) in formats.iter().enumerate() {
                let (k, m) = if wide { (2 * k, m) } else { (k, 2 * m) };
                let weights = Numbers::new(n, k, format, seed ^ at as u32);
                let mut out = vec![0.0; m * n];
                let matrix = Matrix { weights: &weights.view(format), n, k };
                inputs.multiply(&scope, matrix, Epilogue::default(), &mut out);
                prop_assert!(out == product(isa, &x, &weights.view(format), n, k), "{isa}: {at} of {formats:?}");
            }
        }
    }
}

/// More rows than are rounded at once, rows so long that few fit into the cache, and rounding that threads share.
#[test]
fn a_row_is_the_same_wherever_it_lies() {
    for (m, n, k) in [(515, 17, 64), (19, 16, 32768), (67, 33, 4096)] {
        for (bits, group) in
            [CodeBits::Four, CodeBits::Six, CodeBits::Eight].into_iter().flat_map(|bits| [(bits, 16), (bits, 32)])
        {
            let format = Format { bits, offset: 0, kept: Kept::Float32, has_minima: true, group };
            let (matrix, x) = (Numbers::new(n, k, format, 1), numbers(m * k, 2));
            for isa in Isa::available() {
                let row = |x: &[f32]| product(isa, x, &matrix.view(format), n, k);
                assert!(
                    row(&x) == x.chunks_exact(k).flat_map(row).collect::<Vec<_>>(),
                    "{isa}: {m} rows of {k} in {bits:?}"
                );
            }
        }
    }
}

/// Where sums of two products are largest, instructions saturate.
#[test]
fn the_largest_codes_and_inputs_are_multiplied_exactly() {
    let (n, k) = (PANEL, BLOCK);
    for (bits, code) in [(CodeBits::Four, 15), (CodeBits::Six, 63), (CodeBits::Eight, 0x80), (CodeBits::Eight, 0x7F)] {
        for x in [127.0, -127.0] {
            let mut panel = vec![0; bits.panel_bytes(k)];
            (0..n).for_each(|row| pack_codes(bits, &[code; BLOCK], row, &mut panel));
            let scales = [1.0; PANEL];
            let weights = GroupedInt {
                codes: &panel,
                bits,
                offset: 0,
                scales: Scales::Float32(&scales),
                minima: None,
                group: BLOCK,
            };
            let code = if bits == CodeBits::Eight { f32::from(code as i8) } else { f32::from(code) };
            for isa in Isa::available() {
                assert_eq!(product(isa, &[x; BLOCK], &weights, n, k), [x * code * k as f32; PANEL], "{isa}");
            }
        }
    }
}

#[test]
fn what_is_no_number_stays_in_its_row() {
    let (n, k) = (5, 96);
    for bits in [CodeBits::Four, CodeBits::Six, CodeBits::Eight] {
        let format = Format { bits, offset: 0, kept: Kept::Float16, has_minima: true, group: 32 };
        let matrix = Numbers::new(n, k, format, 1);
        // The second one's lowest byte is -128.
        for bad in [f32::NAN, f32::from_bits(0x7FC0_0080), f32::INFINITY] {
            let mut x = numbers(3 * k, 2);
            x[k + 40] = bad;
            for isa in Isa::available() {
                let out = product(isa, &x, &matrix.view(format), n, k);
                let finite: Vec<bool> = out.iter().map(|y| y.is_finite()).collect();
                assert_eq!(finite, [[true; 5], [false; 5], [true; 5]].concat(), "{isa}: {out:?}");
            }
        }
    }
}

//! `grid_between`, `code_of` and `bits_per_weight`: evenly spaced numbers for a group of weights.

use quantlab::quant::{encode_ggml, restore_ggml};
use quantlab::source::GgmlType;
use rand::Rng;

use super::trials::{Close, Trial, in_each};
use crate::cases::random;
use crate::figure::{Figure, all_right};
use crate::{Complaint, Score, ask};

/// Codes from 0 to `last`; a code stands for `(code - zero) * step`.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Grid {
    /// The distance of two neighbouring numbers, a float16 number.
    pub step: f32,
    /// The code that stands for 0, a whole number.
    pub zero: f32,
    /// The largest code.
    pub last: f32,
}

impl Grid {
    /// What a code stands for.
    pub fn number(&self, code: u8) -> f32 {
        (f32::from(code) - self.zero) * self.step
    }
}

/// The nearest float16 number, as checkpoints store a scale; infinite beyond 65504.
pub fn float16(number: f32) -> f32 {
    from_float16(float16_bytes(number))
}

/// The same as two bytes, the lower one first.
pub fn float16_bytes(number: f32) -> [u8; 2] {
    let mut bytes = [0; 2];
    match encode_ggml(GgmlType::F16, &[number], None, &mut bytes) {
        Ok(()) => bytes,
        Err(_) => if number < 0.0 { 0xfc00_u16 } else { 0x7c00 }.to_le_bytes(),
    }
}

/// The float16 number of two bytes, the lower one first.
pub fn from_float16(bytes: [u8; 2]) -> f32 {
    let mut number = [0.0];
    restore_ggml(GgmlType::F16, &bytes, &mut number);
    number[0]
}

const GRID_HINTS: [&str; 3] = [
    "How many steps lie between 16 evenly spaced numbers? And which code stands for 0?",
    "First let `low` be at most 0 and `high` at least 0. The largest code is 2^bits - 1, and as many steps divide the range. \
     Round the step to float16; if it is 0, take 1. The zero point is as many steps above code 0 as 0 is above `low`, \
     rounded to a whole number.",
    "`let step = float16((high.max(0.0) - low.min(0.0)) / last);` and `zero: (-low.min(0.0) / step).round().min(last)`",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slip {
    None,
    NotExtended,
    AsManySteps,
    NotFloat16,
    ZeroNotWhole,
    ZeroOtherSign,
    ZeroFromHigh,
    ZeroNotHeld,
    ZeroStep,
}

const SLIPS: [(Slip, &str); 8] = [
    (Slip::NotExtended, "the range is extended to include 0 first, so that 0 has a code of its own"),
    (Slip::AsManySteps, "between 2^bits numbers lie 2^bits - 1 steps"),
    (Slip::NotFloat16, "the step is rounded to float16: that is what is stored"),
    (Slip::ZeroNotWhole, "the zero point is rounded to a whole number"),
    (Slip::ZeroOtherSign, "`low` is not above 0, so the zero point is -low / step"),
    (Slip::ZeroFromHigh, "the zero point is counted from `low`, which code 0 stands for"),
    (Slip::ZeroNotHeld, "the zero point is at most the largest code: a step of few digits may be much too small"),
    (Slip::ZeroStep, "a step of 0 divides by 0: take 1"),
];

/// Step, zero point, largest code.
///
/// Source: `Quantizer.find_params` in `quant.py` of GPTQ, with `perchannel=True, sym=False`.
pub(super) fn between(low: f64, high: f64, bits: u32) -> [f64; 3] {
    with_slip(low, high, bits, Slip::None)
}

fn with_slip(low: f64, high: f64, bits: u32, slip: Slip) -> [f64; 3] {
    let (low, high) = if slip == Slip::NotExtended { (low, high) } else { (low.min(0.0), high.max(0.0)) };
    let last = 2.0_f64.powi(bits as i32) - 1.0;
    let steps = if slip == Slip::AsManySteps { last + 1.0 } else { last };
    let exact = ((high - low) / steps) as f32;
    let step = f64::from(if slip == Slip::NotFloat16 { exact } else { float16(exact) });
    let step = if step > 0.0 || slip == Slip::ZeroStep { step } else { 1.0 };
    let zero = match slip {
        Slip::ZeroOtherSign => low / step,
        Slip::ZeroFromHigh => high / step,
        _ => -low / step,
    };
    let whole = if slip == Slip::ZeroNotWhole { zero } else { zero.round() };
    [step, if slip == Slip::ZeroNotHeld { whole } else { whole.min(last) }, last]
}

/// Checks `grid_between(low, high, bits)`.
pub fn check_grid_between(yours: fn(f32, f32, u32) -> Grid) -> Score {
    let trials = |ranges: &[(f32, f32)]| -> Result<Vec<Trial>, Complaint> {
        let each = ranges.iter().flat_map(|range| [8, 4, 3, 2].map(|bits| (*range, bits)));
        let trial = |((low, high), bits): ((f32, f32), u32)| {
            let Grid { step, zero, last } = ask(|| Ok(yours(low, high, bits)))?;
            let of = |slip| with_slip(low.into(), high.into(), bits, slip).to_vec();
            Ok(Trial {
                what: format!("grid_between({low}, {high}, {bits})"),
                got: [step, zero, last].map(f64::from).to_vec(),
                expected: of(Slip::None),
                mistakes: SLIPS.map(|(slip, why)| (of(slip), why)).to_vec(),
            })
        };
        each.map(trial).collect()
    };
    let mut rng = random(61);
    let mut around: Vec<(f32, f32)> = vec![(-0.71, 1.13), (-2.43, 0.37), (-0.013, 0.0171), (-300.3, 201.7)];
    around.extend((0..40).map(|_| (-rng.random_range(0.01..3.0_f32), rng.random_range(0.01..3.0_f32))));
    around.retain(|&(low, high)| {
        // Where the zero point lies half-way between two, either is right.
        [8, 4, 3, 2].iter().all(|&bits| {
            let [step, ..] = between(low.into(), high.into(), bits);
            ((f64::from(-low) / step).fract() - 0.5).abs() > 0.01
        })
    });
    let name = |i: usize| ["the step", "the zero point", "the largest code"][i.min(2)].to_owned();
    let of = |ranges: &[(f32, f32)]| in_each(trials(ranges), Close::Each(1e-6), name);
    Score::new("grid_between", GRID_HINTS)
        .point("the range in 2^bits - 1 steps, and the zero point a whole number", of(&around))
        .point("a range on one side of 0 is extended to it", of(&[(0.4, 1.9), (-3.3, -0.7), (0.0, 1.23), (-1.23, 0.0)]))
        .point("weights that are all 0, or almost", of(&[(0.0, 0.0), (-1e-9, 1e-9), (-1.2e-6, 0.0), (-1e-6, 6e-7)]))
}

const CODE_HINTS: [&str; 3] = [
    "How many steps is the weight away from 0, and which code stands for 0?",
    "Divide by the step, round, add the zero point; then hold the result between 0 and the largest code.",
    "`((weight / grid.step).round_ties_even() + grid.zero).clamp(0.0, grid.last) as u8`",
];

/// Checks `code_of(weight, grid)`.
pub fn check_code_of(yours: fn(f32, &Grid) -> u8) -> Score {
    let grids = |bits: u32| {
        let last = (2.0_f32.powi(bits as i32)) - 1.0;
        let zeros = [0.0, 1.0, (last / 2.0).floor(), last];
        zeros.map(|zero| [0.0625, 1.0, 0.0117, 3.5].map(|step| Grid { step, zero, last })).concat()
    };
    // In steps from code 0 on.
    let trials = |at: &dyn Fn(&Grid) -> Vec<f64>| -> Result<Vec<Trial>, Complaint> {
        let mut trials = Vec::new();
        for grid in [8, 4, 3, 2].iter().flat_map(|&bits| grids(bits)) {
            let [step, zero, last] = [grid.step, grid.zero, grid.last].map(f64::from);
            for steps in at(&grid) {
                let weight = ((steps - zero) * step) as f32;
                let code = ask(|| Ok(yours(weight, &grid)))?;
                let from_zero = f64::from(weight) / step;
                let held = |code: f64| vec![code.clamp(0.0, last)];
                let mistakes = vec![
                    (held((from_zero + zero).floor()), "round to the nearest code, not down"),
                    (held((from_zero + zero).ceil()), "round to the nearest code, not up"),
                    (held(from_zero.round()), "the zero point is missing: add `grid.zero`"),
                    (held(from_zero.round() - zero), "the zero point is added, not subtracted"),
                    (held((f64::from(weight) * step).round() + zero), "divide by the step"),
                    (
                        held((from_zero + 0.5).trunc() + zero),
                        "a half added and cut off rounds negative numbers up: round",
                    ),
                    (vec![(from_zero.round() + zero).clamp(0.0, 255.0)], "no code is above `grid.last`"),
                    (vec![(from_zero.round() + zero).rem_euclid(256.0)], "codes lie between 0 and `grid.last`"),
                ];
                let expected = held(from_zero.round() + zero);
                let what = format!("code_of({weight}, step {step}, zero {zero}, last {last})");
                trials.push(Trial { what, got: vec![f64::from(code)], expected, mistakes });
            }
        }
        Ok(trials)
    };
    let name = |_| "the code".to_owned();
    let inside = |grid: &Grid| {
        let last = f64::from(grid.last);
        // Of 8 bits, every 17th code.
        (0..=grid.last as u32)
            .step_by(if grid.last > 15.0 { 17 } else { 1 })
            .flat_map(|code| [-0.4, -0.1, 0.0, 0.23, 0.45].map(|off| f64::from(code) + off))
            .map(|x| x.clamp(0.0, last))
            .collect()
    };
    let outside = |grid: &Grid| {
        [-900.3, -5.2, -0.7, 0.7, 4.1, 290.2, 9000.6]
            .map(|x| if x < 0.0 { x } else { f64::from(grid.last) + x })
            .to_vec()
    };
    Score::new("code_of", CODE_HINTS)
        .point("the nearest code", in_each(trials(&inside), Close::Exactly, name))
        .point("beyond the range, the code at its end", in_each(trials(&outside), Close::Exactly, name))
}

const BITS_HINTS: [&str; 3] = [
    "What is stored once for each group, and how many bits does it take?",
    "A step of 16 bits and a zero point of as many bits as any code, for each group.",
    "`f64::from(bits) + f64::from(16 + bits) / group as f64`",
];

/// Checks `bits_per_weight(bits, group)`.
pub fn check_bits_per_weight(yours: fn(u32, usize) -> f64) -> Score {
    let figure = |(bits, group): (u32, usize)| {
        let (codes, size) = (f64::from(bits), group as f64);
        let with = |shared: f64| codes + shared / size;
        let mistakes = vec![
            (codes, "scales take room too: a step and a zero point for each group"),
            (with(16.0), "the zero point is stored too, in as many bits as any code"),
            (with(codes), "the step is stored too, in 16 bits"),
            (with(32.0), "a step has 16 bits, and the zero point as many as any code"),
            (with(32.0 + codes), "the step is a float16 number: 16 bits"),
            (codes + ((16.0 + codes) / size).floor(), "bits are shared exactly: divide as `f64`"),
            (16.0 + codes + codes * size, "that is a whole group: divide by its weights"),
            (codes + 16.0 + codes, "step and zero point are shared by the whole group"),
        ];
        let got = ask(|| Ok(yours(bits, group)))?;
        Ok(Figure { what: format!("bits_per_weight({bits}, {group})"), got, expected: with(16.0 + codes), mistakes })
    };
    let cases = [(4, 64), (3, 64), (2, 64), (4, 32), (3, 128), (2, 576), (8, 1)];
    let figures: Result<Vec<Figure>, Complaint> = cases.into_iter().map(figure).collect();
    let verdict = figures.and_then(|figures| all_right(&figures, |a, b| (a - b).abs() < 1e-9));
    Score::new("bits_per_weight", BITS_HINTS).point("codes, and a share of the step and the zero point", verdict)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn float16_numbers_are_rounded_and_read_back() {
        assert_eq!([0.1, -1.0, 1e-9, 65504.0].map(float16), [0.099_975_586, -1.0, 0.0, 65504.0]);
        assert_eq!((float16(1e6), float16(-1e6)), (f32::INFINITY, f32::NEG_INFINITY));
        assert_eq!(from_float16([0x00, 0x3c]), 1.0);
    }
}

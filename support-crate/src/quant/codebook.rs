//! The numbers that codes of 4 and 8 bits stand for: each table once, with its source.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use crate::error::{Error, Result};

/// A 4-bit data type: sixteen numbers from -1 to 1, of which each weight of a block takes one, times the
/// largest magnitude in the block (`absmax`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FourBit {
    /// NormalFloat: made from the quantiles of the normal distribution, so that the numbers lie closest together where
    /// most weights lie.
    Nf4,
    /// Floating point with a sign, 2 bits of exponent and 1 of fraction, as bitsandbytes has it: its smallest number
    /// above 0 is 1/192 of the largest, where the common E2M1 has 1/12.
    Fp4,
}

/// Source: QLoRA (Dettmers et al. 2023, arXiv:2305.14314), appendix E; as float32 in
/// `get_4bit_type("nf4")` of bitsandbytes `functional.py`.
const NF4: [f32; 16] = [
    -1.0,
    -0.6961928,
    -0.52507305,
    -0.3949175,
    -0.28444138,
    -0.18477343,
    -0.091050036,
    0.0,
    0.0795803,
    0.1609302,
    0.2461123,
    0.33791524,
    0.44070983,
    0.562617,
    0.72295684,
    1.0,
];

/// Source: `get_4bit_type("fp4")` of bitsandbytes `functional.py`: the codes in the order of their bits, scaled so that
/// the largest is 1.
const FP4: [f32; 16] = {
    let magnitudes = [0.0, 0.0625, 8.0, 12.0, 4.0, 6.0, 2.0, 3.0];
    let mut numbers = [0.0; 16];
    let mut code = 1;
    while code < 8 {
        numbers[code] = magnitudes[code] / 12.0;
        numbers[8 + code] = -numbers[code];
        code += 1;
    }
    numbers
};

/// The 4-bit floating point of the Microscaling formats, by its codes, scaled so that the largest is 1: a sign, 2 bits
/// of exponent, 1 of fraction. It differs from bitsandbytes' FP4 in one number, 1/12 where that has 1/192, and in the
/// order of the codes.
///
/// Source: OCP Microscaling Formats (MX) Specification 1.0, section 5.3.3 (arXiv:2310.10537, table 1).
pub const E2M1: [f32; 16] = {
    let magnitudes = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];
    let mut numbers = [0.0; 16];
    let mut code = 0;
    while code < 8 {
        numbers[code] = magnitudes[code] / 6.0;
        numbers[8 + code] = -numbers[code];
        code += 1;
    }
    numbers
};

/// Plain int4: the whole numbers from -8 to 7, in sevenths. Divided by its absmax, no weight of a block comes near -8/7, so
/// that code is never used.
pub const INT4: [f32; 16] = {
    let mut numbers = [0.0; 16];
    let mut code = 0;
    while code < 16 {
        numbers[code] = (code as f32 - 8.0) / 7.0;
        code += 1;
    }
    numbers
};

/// Each value rounded to the nearest number of a codebook, times the largest magnitude in its block: what is left of weights
/// after 4 bits. For any sixteen numbers; [`quantize_4bit_blocks`](super::quantize_4bit_blocks) packs NF4 and FP4. A block
/// in which a value is NaN or infinite becomes NaN.
///
/// # Panics
/// `blocksize` is 0.
pub fn round_to_codebook(values: &[f32], codebook: &[f32; 16], blocksize: usize) -> Vec<f32> {
    let round = |block: &[f32]| {
        if !block.iter().all(|value| value.is_finite()) {
            return vec![f32::NAN; block.len()];
        }
        let absmax = block.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
        let scale = if absmax > 0.0 { absmax } else { 1.0 };
        let nearest = |value: &f32| {
            let distance = |number: &f32| (number - value / scale).abs();
            codebook.iter().copied().min_by(|a, b| distance(a).total_cmp(&distance(b))).unwrap_or(0.0) * absmax
        };
        block.iter().map(nearest).collect::<Vec<f32>>()
    };
    values.chunks(blocksize).flat_map(round).collect()
}

impl FourBit {
    /// Every type.
    pub const ALL: [Self; 2] = [Self::Nf4, Self::Fp4];

    /// What each code stands for.
    ///
    /// ```
    /// use quantlab::quant::FourBit;
    ///
    /// assert_eq!(FourBit::Nf4.codebook()[15], 1.0);
    /// assert_eq!(FourBit::Fp4.codebook()[0b0100], 1.0 / 3.0);
    /// ```
    pub fn codebook(self) -> &'static [f32; 16] {
        match self {
            Self::Nf4 => &NF4,
            Self::Fp4 => &FP4,
        }
    }

    /// The same numbers, sorted, with the limits between them.
    pub(super) fn ascending(self) -> &'static Ascending {
        static SORTED_NF4: Ascending = Ascending::of(&NF4);
        static SORTED_FP4: Ascending = Ascending::of(&FP4);
        match self {
            Self::Nf4 => &SORTED_NF4,
            Self::Fp4 => &SORTED_FP4,
        }
    }
}

/// The codes from the smallest number to the largest: the nearest one to `x` is
/// `codes[i]`, where `i` is how many of the thresholds are less than `x`.
pub(super) struct Ascending {
    pub codes: [u8; 16],
    pub thresholds: [f32; 15],
}

impl Ascending {
    /// FP4 has two zeros, codes 0 and 8; they keep this order, as in bitsandbytes, so that the smallest
    /// positive weights become code 8.
    const fn of(codebook: &[f32; 16]) -> Self {
        let mut codes = [0; 16];
        let mut sorted = 0;
        while sorted < 16 {
            let mut place = sorted;
            while place > 0 && codebook[codes[place - 1] as usize] > codebook[sorted] {
                codes[place] = codes[place - 1];
                place -= 1;
            }
            codes[place] = sorted as u8;
            sorted += 1;
        }
        let mut thresholds = [0.0; 15];
        let mut i = 0;
        while i < 15 {
            thresholds[i] = (codebook[codes[i] as usize] + codebook[codes[i + 1] as usize]) / 2.0;
            i += 1;
        }
        Self { codes, thresholds }
    }
}

/// The numbers of the dynamic 8-bit data type, ascending from -0.993 to 1; code 127 is 0.
///
/// Seven decades below 1, in which the number of steps doubles from one to the next: a sign, a run of zeros for the
/// decade, and the remaining bits for the position within it.
///
/// Source: 8-bit Optimizers via Block-wise Quantization (Dettmers et al. 2021, arXiv:2110.02861), section
/// 1.3; `create_dynamic_map` of bitsandbytes `functional.py`.
pub fn dynamic_map() -> &'static [f32; 256] {
    static MAP: [f32; 256] = make_dynamic_map();
    &MAP
}

const fn make_dynamic_map() -> [f32; 256] {
    let decades = [1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0_f32];
    let zero = 127;
    let mut map = [0.0; 256];
    let mut decade = 0;
    while decade < decades.len() {
        let steps = 1 << decade;
        let mut step = 0;
        while step < steps {
            let middle = (boundary(step, steps) + boundary(step + 1, steps)) / 2.0;
            // The decades below have 1 + 2 + 4 + ... steps.
            let from_zero = steps + step;
            map[zero + from_zero] = decades[decade] * middle;
            map[zero - from_zero] = -map[zero + from_zero];
            step += 1;
        }
        decade += 1;
    }
    map[255] = 1.0;
    map
}

/// Boundary `i` of `steps` equal steps from 0.1 to 1, as `torch.linspace` computes it: from the nearer end,
/// rounded once.
const fn boundary(i: usize, steps: usize) -> f32 {
    let (start, end) = (0.1_f32, 1.0_f32);
    let step = ((end - start) / steps as f32) as f64;
    if i < steps.div_ceil(2) {
        (start as f64 + step * i as f64) as f32
    } else {
        (end as f64 - step * (steps - i) as f64) as f32
    }
}

/// Reads `nf4` and `fp4`, in any case.
impl FromStr for FourBit {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.trim().to_ascii_lowercase().as_str() {
            "nf4" => Ok(Self::Nf4),
            "fp4" => Ok(Self::Fp4),
            _ => Err(Error::input(format!("unknown 4-bit type `{text}`")).hint("use nf4 or fp4")),
        }
    }
}

impl fmt::Display for FourBit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quant::{FourBitOptions, Quantized4Bit};

    #[test]
    fn names_read_back_and_others_are_refused() {
        for quant_type in FourBit::ALL {
            assert_eq!(quant_type.to_string().to_uppercase().parse::<FourBit>().unwrap(), quant_type);
        }
        let error = "int4".parse::<FourBit>().unwrap_err();
        assert!(error.to_string().contains("`int4`") && error.to_string().contains("nf4"), "{error}");
    }

    #[test]
    fn thresholds_lie_halfway_between_neighbours() {
        for quant_type in FourBit::ALL {
            let Ascending { codes, thresholds } = quant_type.ascending();
            let sorted = codes.map(|code| quant_type.codebook()[usize::from(code)]);
            assert!(sorted.is_sorted());
            for (pair, threshold) in sorted.windows(2).zip(thresholds) {
                assert_eq!(*threshold, (pair[0] + pair[1]) / 2.0, "{quant_type}");
            }
        }
        assert_eq!(FourBit::Fp4.ascending().codes[7..9], [0, 8]);
    }

    /// The same numbers but for the smallest, in another order.
    #[test]
    fn e2m1_is_fp4_with_a_smallest_number_that_is_in_line() {
        let sorted = |mut numbers: [f32; 16]| {
            numbers.sort_by(f32::total_cmp);
            numbers
        };
        let differing: Vec<(f32, f32)> = sorted(E2M1)
            .into_iter()
            .zip(sorted(*FourBit::Fp4.codebook()))
            .filter(|(a, b)| (a - b).abs() > 1e-6)
            .collect();
        assert_eq!(differing, [(-1.0 / 12.0, -1.0 / 192.0), (1.0 / 12.0, 1.0 / 192.0)]);
        assert_eq!((INT4[1], INT4[8], INT4[15]), (-1.0, 0.0, 1.0));
    }

    #[test]
    fn values_are_rounded_as_packed_codes_restore_them() {
        let values: Vec<f32> = (0..192).map(|i| (i as f32 * 2.399).sin() * (i as f32 * 0.037).cos()).collect();
        for quant_type in FourBit::ALL {
            let options = FourBitOptions { quant_type, ..FourBitOptions::default() };
            let restored: Vec<f32> = Quantized4Bit::quantize(&values, &[values.len()], options).unwrap().dequantize();
            assert_eq!(round_to_codebook(&values, quant_type.codebook(), 64), restored, "{quant_type}");
        }
        assert_eq!(round_to_codebook(&[0.0; 6], &INT4, 4), [0.0; 6]);
        for damaged in [f32::NAN, f32::INFINITY] {
            let rounded = round_to_codebook(&[1.0, damaged, 1.0, -1.0], &INT4, 2);
            assert!(rounded[0].is_nan() && rounded[1].is_nan() && rounded[2..] == [1.0, -1.0], "{rounded:?}");
        }
    }

    #[test]
    fn the_dynamic_map_ascends_and_its_decades_double() {
        let map = dynamic_map();
        assert!(map.is_sorted());
        assert_eq!((map[127], map[255]), (0.0, 1.0));
        for decade in 0..7 {
            let [low, high] = [decade - 7, decade - 6].map(|exponent| 10.0_f32.powi(exponent));
            let steps = map[128..255].iter().filter(|number| (low..high).contains(number)).count();
            assert_eq!(steps, 1 << decade);
        }
    }
}

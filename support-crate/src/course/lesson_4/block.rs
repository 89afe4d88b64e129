//! `quantize_block` and `dequantize_block`: one block of 4-bit weights by hand.

use crate::course::{Check, Complaint, Score, ask};
use crate::quant::FourBit;

type Codebook = [f32; 16];

/// Beyond rounding: codes that are equally near are both right.
const TIE: f32 = 1e-5;

const QUANTIZE_HINTS: [&str; 3] = [
    "What do the values have to be divided by so that the largest in magnitude becomes 1 or -1? And what if all are 0?",
    "`absmax` is the maximum of `value.abs()`. Divide by it (by 1 if it is 0), and take for each value the code, from 0 \
     to 15, whose number in the codebook is nearest; do not rely on the order of the numbers.",
    "`let code = |value: f32| (0..16).min_by(|&a, &b| (codebook[a] - value / scale).abs().total_cmp(&(codebook[b] - \
     value / scale).abs())).unwrap() as u8;` and `values.chunks(2).map(|pair| code(pair[0]) << 4 | \
     code(pair[1]))`",
];

const DEQUANTIZE_HINTS: [&str; 3] = [
    "Which half of a byte holds the first of its two values, and how do you get at it?",
    "`byte >> 4` is the code of the first value, `byte & 15` that of the second; the value is the codebook's number \
     for that code, times absmax.",
    "`packed.iter().flat_map(|byte| [byte >> 4, byte & 15]).map(|code| codebook[code as usize] * absmax).collect()`",
];

/// Checks `quantize_block(values, codebook)`: packed codes and absmax.
pub fn check_quantize_block(yours: impl Fn(&[f32], &Codebook) -> (Vec<u8>, f32)) -> Score {
    let quantize = |values: &[f32], quant_type: FourBit| ask(|| Ok(yours(values, quant_type.codebook())));
    // The largest magnitude is a negative one.
    let values = weights();
    let nf4 = quantize(&values, FourBit::Nf4);
    let fp4 = quantize(&values, FourBit::Fp4);
    Check::new("quantize_block", QUANTIZE_HINTS)
        .about(&nf4, "absmax is the largest magnitude", |&(_, absmax)| is_largest_magnitude(&values, absmax))
        .about(&nf4, "two codes share a byte", |(packed, _)| is_packed(&values, packed))
        .about(&nf4, "the first value is in the high half of the byte", |(packed, absmax)| {
            first_is_high(&values, packed, *absmax)
        })
        .about(&nf4, "each value gets the nearest of NF4's numbers", |(packed, absmax)| {
            nearest(FourBit::Nf4, &values, packed, *absmax)
        })
        .about(&fp4, "and of FP4's, which do not ascend", |(packed, absmax)| {
            nearest(FourBit::Fp4, &values, packed, *absmax)
        })
        .point("a block of zeros becomes zeros", zeros(quantize(&[0.0; 64], FourBit::Nf4)))
        .score()
}

/// Checks `dequantize_block(packed, absmax, codebook)`.
pub fn check_dequantize_block(yours: impl Fn(&[u8], f32, &Codebook) -> Vec<f32>) -> Score {
    // Every code, in both halves.
    let packed: Vec<u8> = (0..32).map(|i| ((i * 7 % 16) << 4) | ((i * 5 + 3) % 16)).collect();
    let restore = |absmax: f32, quant_type: FourBit| {
        let got = ask(|| Ok(yours(&packed, absmax, quant_type.codebook())))?;
        if got.len() == 2 * packed.len() {
            Ok(got)
        } else {
            Err(Complaint::wrong(format!(
                "{} bytes became {} values; each byte holds two codes",
                packed.len(),
                got.len()
            )))
        }
    };
    let expected = |absmax: f32, quant_type: FourBit| -> Vec<f32> {
        codes(&packed).map(|code| quant_type.codebook()[code] * absmax).collect()
    };
    let plain = restore(1.0, FourBit::Nf4);
    let is =
        |got: &[f32], expected: &[f32]| got.iter().zip(expected).all(|(got, expected)| (got - expected).abs() < TIE);
    Check::new("dequantize_block", DEQUANTIZE_HINTS)
        .about(&plain, "each byte gives its high half first, then its low half", |got| {
            let expected = expected(1.0, FourBit::Nf4);
            let (pairs, _) = expected.as_chunks::<2>();
            let swapped: Vec<f32> = pairs.iter().flat_map(|&[high, low]| [low, high]).collect();
            match () {
                () if is(got, &expected) => Ok(()),
                () if is(got, &swapped) => Err(Complaint::wrong(
                    "the two values of each byte came out in the wrong order: the first is in the high half (`byte >> 4`)",
                )),
                () => Err(Complaint::wrong(format!(
                    "with absmax 1, the byte {:#04x} became {} and {}, expected {} and {}",
                    packed[0], got[0], got[1], expected[0], expected[1]
                ))),
            }
        })
        .about(&restore(0.25, FourBit::Nf4), "values are scaled by absmax", |got| {
            let expected = expected(0.25, FourBit::Nf4);
            // The order of the two halves is another point's business.
            if same_numbers(got, &expected) {
                Ok(())
            } else if plain.as_ref().is_ok_and(|plain| is(got, plain)) {
                Err(Complaint::wrong("absmax 0.25 gave the same values as absmax 1: multiply by it"))
            } else {
                Err(Complaint::wrong(format!(
                    "with absmax 0.25 the largest value is {}, expected 0.25",
                    got.iter().copied().fold(f32::NEG_INFINITY, f32::max)
                )))
            }
        })
        .about(&restore(0.25, FourBit::Fp4), "the codebook that was passed in is used", |got| {
            if same_numbers(got, &expected(0.25, FourBit::Fp4)) {
                return Ok(());
            }
            Err(Complaint::wrong("with FP4's codebook, other values came out than its codes stand for"))
        })
        .score()
}

/// 64 weights of many sizes, as a layer has them; none lies halfway between two codes.
fn weights() -> Vec<f32> {
    let weight = |i: i32| 0.031 * (i as f32 * 2.399).sin() * (i as f32 * 0.37).cos();
    let mut weights: Vec<f32> = (1..=64).map(weight).collect();
    weights[40] = -0.0625;
    weights
}

fn codes(packed: &[u8]) -> impl Iterator<Item = usize> {
    packed.iter().flat_map(|byte| [byte >> 4, byte & 15]).map(usize::from)
}

fn is_largest_magnitude(values: &[f32], absmax: f32) -> Result<(), Complaint> {
    let magnitude = values.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
    let largest = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    match () {
        () if (absmax - magnitude).abs() < TIE * magnitude => Ok(()),
        () if (absmax - largest).abs() < TIE => Err(Complaint::wrong(format!(
            "absmax is {absmax}, the largest value; but -{magnitude} is larger in magnitude, and divided by {absmax} it \
             would lie below -1, where no code is"
        ))),
        () => Err(Complaint::wrong(format!("absmax is {absmax}, expected {magnitude}"))),
    }
}

fn is_packed(values: &[f32], packed: &[u8]) -> Result<(), Complaint> {
    match packed.len() {
        len if len == values.len() / 2 => Ok(()),
        len if len == values.len() => Err(Complaint::wrong(format!(
            "{len} values became {len} bytes, one code each: that is 8 bits a weight. Put two codes into a byte"
        ))),
        len => {
            Err(Complaint::wrong(format!("{} values became {len} bytes, expected {}", values.len(), values.len() / 2)))
        }
    }
}

/// How far each value, divided by `absmax`, is from the number of its code, beyond what it need be.
fn excess(quant_type: FourBit, values: &[f32], codes: &[usize], absmax: f32) -> Vec<f32> {
    let codebook = quant_type.codebook();
    let excess = |(&value, &code): (&f32, &usize)| {
        let distance = |number: f32| (number - value / absmax).abs();
        let least = codebook.iter().copied().map(distance).fold(f32::INFINITY, f32::min);
        distance(codebook[code]) - least
    };
    values.iter().zip(codes).map(excess).collect()
}

fn in_order(packed: &[u8], swapped: bool) -> Vec<usize> {
    codes(&packed.iter().map(|byte| if swapped { byte.rotate_left(4) } else { *byte }).collect::<Vec<_>>()).collect()
}

/// Whether the codes are much better when the halves of each byte change places.
fn is_swapped(quant_type: FourBit, values: &[f32], packed: &[u8], absmax: f32) -> bool {
    let sum = |swapped| excess(quant_type, values, &in_order(packed, swapped), absmax).iter().sum::<f32>();
    sum(true) < 0.5 * sum(false)
}

fn first_is_high(values: &[f32], packed: &[u8], absmax: f32) -> Result<(), Complaint> {
    is_packed(values, packed)?;
    Complaint::unless(!is_swapped(FourBit::Nf4, values, packed, absmax), || {
        "the first value of each pair is in the low half of the byte. bitsandbytes has it in the high half \
             (`first << 4 | second`), and would read every pair of your weights the wrong way round"
    })
}

fn nearest(quant_type: FourBit, values: &[f32], packed: &[u8], absmax: f32) -> Result<(), Complaint> {
    is_packed(values, packed)?;
    if absmax.is_nan() || absmax <= 0.0 {
        return Err(Complaint::wrong(format!("absmax is {absmax}: no value can be divided by it")));
    }
    let codes = in_order(packed, is_swapped(quant_type, values, packed, absmax));
    let excess = excess(quant_type, values, &codes, absmax);
    let Some(at) = excess.iter().position(|excess| excess.is_nan() || *excess >= TIE) else { return Ok(()) };
    let codebook = quant_type.codebook();
    let scaled = values[at] / absmax;
    let distance = |number: f32| (number - scaled).abs();
    let best = codebook.iter().copied().min_by(|a, b| distance(*a).total_cmp(&distance(*b))).unwrap_or(0.0);
    Err(Complaint::wrong(format!(
        "value {at}, divided by absmax, is {scaled:.3}; it got code {}, which stands for {:.3}, but {best:.3} is nearer",
        codes[at], codebook[codes[at]]
    )))
}

fn zeros(answer: Result<(Vec<u8>, f32), Complaint>) -> Result<(), Complaint> {
    let why = "the largest magnitude is 0 then, and 0 / 0 is NaN: divide by 1 instead";
    let (packed, absmax) = answer.map_err(|complaint| match complaint {
        Complaint::Panicked(message) => Complaint::wrong(format!("it panicked: {message}. For 64 zeros, {why}")),
        other => other,
    })?;
    is_packed(&[0.0; 64], &packed)?;
    let codebook = FourBit::Nf4.codebook();
    match codes(&packed).find(|&code| codebook[code] != 0.0) {
        _ if !absmax.is_finite() => Err(Complaint::wrong(format!("absmax of 64 zeros is {absmax}; {why}"))),
        None => Ok(()),
        Some(code) => Err(Complaint::wrong(format!(
            "64 zeros got code {code}, which stands for {}: take the code whose number is 0 (if you divided: {why})",
            codebook[code]
        ))),
    }
}

fn same_numbers(got: &[f32], expected: &[f32]) -> bool {
    let sorted = |numbers: &[f32]| {
        let mut numbers = numbers.to_vec();
        numbers.sort_by(f32::total_cmp);
        numbers
    };
    sorted(got).iter().zip(sorted(expected)).all(|(got, expected)| (got - expected).abs() < TIE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quant::{Absmax, FourBitOptions, Quantized4Bit};

    /// What the check takes for right is what the library, and with it bitsandbytes, gives.
    #[test]
    fn the_library_gets_full_points() {
        for quant_type in FourBit::ALL {
            let options = FourBitOptions { quant_type, ..FourBitOptions::default() };
            let quantize = |values: &[f32]| {
                let quantized = Quantized4Bit::quantize(values, &[values.len()], options).unwrap();
                let Absmax::Float32(absmax) = quantized.absmax() else { unreachable!("not nested") };
                (quantized.packed().to_vec(), absmax[0])
            };
            let (packed, absmax) = quantize(&weights());
            assert_eq!(is_largest_magnitude(&weights(), absmax), Ok(()));
            assert_eq!(first_is_high(&weights(), &packed, absmax), Ok(()));
            assert_eq!(nearest(quant_type, &weights(), &packed, absmax), Ok(()));
            if quant_type == FourBit::Nf4 {
                assert_eq!(zeros(Ok(quantize(&[0.0; 64]))), Ok(()));
            }
        }
    }

    /// One right answer for each weight: else a right variant might be refused.
    #[test]
    fn no_weight_lies_between_two_codes() {
        for quant_type in FourBit::ALL {
            for weight in weights() {
                let distance = |number: &f32| (number - weight / 0.0625).abs();
                let mut distances: Vec<f32> = quant_type.codebook().iter().map(distance).collect();
                distances.sort_by(f32::total_cmp);
                // FP4 has two zeros.
                let second = if distances[0] == distances[1] { distances[2] } else { distances[1] };
                assert!(second - distances[0] > 10.0 * TIE, "{weight}");
            }
        }
    }
}

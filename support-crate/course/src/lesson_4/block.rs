//! `quantize_block` and `dequantize_block`: one block of 4-bit weights by hand.

use rand::Rng;

use quantlab::quant::FourBit;

use crate::cases::{random, size};
use crate::figure::largest_magnitude;
use crate::{Complaint, Score, Verdict, ask};

type Codebook = [f32; 16];

/// Sixteen numbers of no format, in no order: none is 1 or -1, and a value can be far from all of them.
const UNEVEN: Codebook =
    [0.31, -0.07, 0.52, 0.02, -0.21, 0.44, 0.13, -0.33, 0.61, 0.08, -0.14, 0.37, 0.19, -0.27, 0.25, 0.57];

/// The tolerance for ties, beyond rounding: if two codes are equally near, both are right.
const TIE: f32 = 1e-5;

const QUANTIZE_HINTS: [&str; 3] = [
    "What must the values be divided by so that the largest in magnitude becomes 1 or -1? And what if they are all 0?",
    "`absmax` is the maximum of `value.abs()`. Divide by it (by 1 if it is 0), and give each value the code, from 0 to \
     15, whose number in the codebook is nearest. Do not rely on the order of the numbers.",
    "`let code = |value: f32| (0..16).min_by(|&a, &b| (codebook[a] - value / scale).abs().total_cmp(&(codebook[b] - \
     value / scale).abs())).unwrap() as u8;` and `values.chunks(2).map(|pair| code(pair[0]) << 4 | \
     code(pair[1]))`",
];

const DEQUANTIZE_HINTS: [&str; 3] = [
    "Which half of a byte holds the first of its two values, and how do you get at it?",
    "`byte >> 4` is the code of the first value, `byte & 15` that of the second; a value is the codebook's number for \
     its code, times absmax.",
    "`packed.iter().flat_map(|byte| [byte >> 4, byte & 15]).map(|code| codebook[code as usize] * absmax).collect()`",
];

/// Checks `quantize_block(values, codebook)`: packed codes and absmax.
pub fn check_quantize_block(yours: fn(&[f32], &Codebook) -> (Vec<u8>, f32)) -> Score {
    let quantize = |values: &[f32], codebook: &Codebook| ask(|| Ok(yours(values, codebook)));
    let [nf4s, fp4s] = [FourBit::Nf4, FourBit::Fp4].map(FourBit::codebook);
    let (values, blocks) = (weights(), blocks());
    let nf4 = quantize(&values, nf4s);
    let each = |look: &dyn Fn(&[f32]) -> Verdict| blocks.iter().try_for_each(|values| look(values));
    let all_nearest = |values: &[f32], codebook: &Codebook| {
        let (packed, absmax) = quantize(values, codebook)?;
        nearest(codebook, values, &packed, absmax)
    };
    Score::new("quantize_block", QUANTIZE_HINTS)
        .point(
            "absmax is the largest magnitude",
            each(&|values| is_largest_magnitude(values, quantize(values, nf4s)?.1)),
        )
        .about(&nf4, "two codes share a byte", |_| each(&|values| is_packed(values, &quantize(values, nf4s)?.0)))
        .about(&nf4, "the first value is in the high half of the byte", |(packed, absmax)| {
            first_is_high(nf4s, &values, packed, *absmax)
        })
        .point("each value gets the nearest of NF4's numbers", each(&|values| all_nearest(values, nf4s)))
        .point(
            "and of FP4's, which are not in ascending order",
            each(&|values| [fp4s, &UNEVEN].into_iter().try_for_each(|codebook| all_nearest(values, codebook))),
        )
        .point(
            "the size of the weights makes no difference",
            FourBit::ALL.into_iter().try_for_each(|quant_type| {
                // Far below any small number that an answer might add as a safeguard, and far above 1.
                [1e-9, 1e-30, 1e12].into_iter().try_for_each(|factor| {
                    let scaled: Vec<f32> = values.iter().map(|value| value * factor).collect();
                    let (packed, absmax) = quantize(&scaled, quant_type.codebook())?;
                    is_scaled(quant_type.codebook(), &scaled, &packed, absmax)
                })
            }),
        )
        .point("a block of zeros becomes zeros", {
            // In another order, the number next to 0 comes before it.
            let mut turned = *fp4s;
            turned.reverse();
            let codebooks = [("NF4", nf4s), ("FP4", fp4s), ("FP4 from its end", &turned)];
            let mut cases = codebooks.into_iter().flat_map(|codebook| [64, 2, 128].map(|n| (codebook, n)));
            cases.try_for_each(|((name, codebook), n)| zeros(name, codebook, n, quantize(&vec![0.0; n], codebook)))
        })
}

/// Checks `dequantize_block(packed, absmax, codebook)`.
pub fn check_dequantize_block(yours: fn(&[u8], f32, &Codebook) -> Vec<f32>) -> Score {
    // Every code, in both halves.
    let packed: Vec<u8> = (0..32).map(|i| ((i * 7 % 16) << 4) | ((i * 5 + 3) % 16)).collect();
    let [nf4s, fp4s] = [FourBit::Nf4, FourBit::Fp4].map(FourBit::codebook);
    let restore = |packed: &[u8], absmax: f32, codebook: &Codebook| {
        let got = ask(|| Ok(yours(packed, absmax, codebook)))?;
        if got.len() == 2 * packed.len() {
            Ok(got)
        } else {
            let (bytes, values) = (packed.len(), got.len());
            wrong!("{bytes} bytes became {values} values; each byte holds two codes")
        }
    };
    let plain = restore(&packed, 1.0, nf4s);
    Score::new("dequantize_block", DEQUANTIZE_HINTS)
        .about(&plain, "each byte gives its high half first, then its low half", |_| {
            let mut rng = random(42);
            let of_any_length = [0, 1, 5, 150, 2048].map(|n| (0..n).map(|_| rng.random()).collect::<Vec<u8>>());
            // One byte repeated, and runs of it; zeros at either end.
            let runs = [vec![0x77; 40], vec![0; 8], [[0x70_u8; 20], [0; 20]].concat(), [[0; 20], [0x07; 20]].concat()];
            let all = [packed.clone()].into_iter().chain(of_any_length).chain(runs);
            all.into_iter().try_for_each(|packed| in_pairs(&packed, &restore(&packed, 1.0, nf4s)?))
        })
        .about(&restore(&packed, 0.25, nf4s), "values are scaled by absmax", |got| {
            // The order of the two halves is checked by another point.
            if plain.as_ref().is_ok_and(|plain| is(got, plain, 1.0)) {
                return wrong!("absmax 0.25 gave the same values as absmax 1: multiply by it");
            }
            for absmax in [0.25, 3.75, 3e-20, 7e15] {
                let got = restore(&packed, absmax, nf4s)?;
                let largest = got.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                Complaint::unless(same_numbers(&got, &restored(&packed, absmax, nf4s), absmax), || {
                    format!("with absmax {absmax} the largest value is {largest}, expected {absmax}")
                })?;
            }
            let is_zero = restore(&packed, 0.0, nf4s)?.iter().all(|&value| value == 0.0);
            Complaint::unless(is_zero, || "with absmax 0 there are values other than 0: multiply by it")
        })
        .about(&restore(&packed, 0.25, fp4s), "the codebook that was passed in is used", |got| {
            Complaint::unless(
                same_numbers(got, &restored(&packed, 0.25, fp4s), 0.25),
                || "with FP4's codebook, the values are not the numbers that its codes stand for",
            )?;
            // Code 0 once, code 1 twice, ...: an answer with its own order would give the numbers with other
            // frequencies.
            let codes: Vec<u8> = (0..16).flat_map(|code| vec![code; usize::from(code) + 1]).collect();
            let packed: Vec<u8> = codes.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect();
            let uneven = restore(&packed, 2.5, &UNEVEN)?;
            Complaint::unless(same_numbers(&uneven, &restored(&packed, 2.5, &UNEVEN), 2.5), || {
                format!(
                    "with a codebook that ends neither at -1 nor at 1, {UNEVEN:?}, the values are not its numbers \
                         times absmax"
                )
            })
        })
}

/// 64 weights of many sizes, as a layer has them; none lies halfway between two codes.
fn weights() -> Vec<f32> {
    let weight = |i: i32| 0.058 * (i as f32 * 2.399).sin() * (i as f32 * 0.37).cos();
    let mut weights: Vec<f32> = (1..=64).map(weight).collect();
    weights[40] = -0.0625;
    weights
}

/// 14 values; none of these lies halfway between two codes, either.
fn short_block() -> Vec<f32> {
    let mut block: Vec<f32> = weights().iter().take(14).map(|weight| weight * -22.0).collect();
    block[0] = 1.5;
    block
}

/// Blocks of many sizes: the largest magnitude anywhere in them, of either sign, from hardly larger than the others to
/// thirty times as large; and blocks of few different values.
fn blocks() -> Vec<Vec<f32>> {
    let mut rng = random(41);
    let short = short_block();
    let mut blocks = vec![weights(), short.clone(), short.into_iter().rev().collect()];
    for n in [2, 6, 32, 64, 64, 64, 64, 100, 128, 256, 256, 1024, 4096] {
        let rms = 0.001 * size(&mut rng, 10_000) as f32;
        let mut block: Vec<f32> = (0..n).map(|_| rms * rng.random_range(-1.7..1.7)).collect();
        let outlier = rms * rng.random_range(1.8..30.0);
        block[rng.random_range(0..n)] = if rng.random() { outlier } else { -outlier };
        blocks.push(block);
    }
    let mut one = vec![0.0; 64];
    one[45] = -0.37;
    blocks.extend([one, vec![-0.02; 64], [0.5, -0.5].repeat(16), vec![0.0, 3e-3]]);
    blocks
}

fn codes(packed: &[u8]) -> impl Iterator<Item = usize> {
    packed.iter().flat_map(|byte| [byte >> 4, byte & 15]).map(usize::from)
}

fn restored(packed: &[u8], absmax: f32, codebook: &Codebook) -> Vec<f32> {
    codes(packed).map(|code| codebook[code] * absmax).collect()
}

/// Whether these are the same numbers, as multiples of absmax.
fn is(got: &[f32], expected: &[f32], absmax: f32) -> bool {
    got.iter().zip(expected).all(|(got, expected)| (got - expected).abs() < TIE * absmax)
}

/// Whether these are NF4's numbers for the codes, with absmax 1.
fn in_pairs(packed: &[u8], got: &[f32]) -> Verdict {
    let expected = restored(packed, 1.0, FourBit::Nf4.codebook());
    let (pairs, _) = expected.as_chunks::<2>();
    let swapped: Vec<f32> = pairs.iter().flat_map(|&[high, low]| [low, high]).collect();
    let halves: Vec<f32> = (0..2).flat_map(|half| pairs.iter().map(move |pair| pair[half])).collect();
    if is(got, &expected, 1.0) {
        return Ok(());
    }
    if is(got, &swapped, 1.0) {
        return wrong!(
            "the two values of each byte came out in the wrong order: the first is in the high half (`byte >> 4`)"
        );
    }
    if is(got, &halves, 1.0) {
        return wrong!(
            "all high halves came first, then all low halves; the two values of a byte belong next to each other"
        );
    }
    let at = (0..packed.len()).find(|at| !is(&got[2 * at..2 * at + 2], &pairs[*at], 1.0)).unwrap_or(0);
    wrong!(
        "with absmax 1, the byte {:#04x} became {} and {}, expected {} and {}",
        packed[at],
        got[2 * at],
        got[2 * at + 1],
        pairs[at][0],
        pairs[at][1]
    )
}

fn is_largest_magnitude(values: &[f32], absmax: f32) -> Verdict {
    let magnitude = largest_magnitude(values);
    let largest = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    match () {
        () if (absmax - magnitude).abs() < TIE * magnitude => Ok(()),
        () if (absmax - largest).abs() < TIE * magnitude => wrong!(
            "absmax is {absmax}, the largest value; but -{magnitude} is larger in magnitude, and divided by {absmax} it \
             would lie below -1, where there is no code"
        ),
        () => {
            let is_at = |value: &f32| (value.abs() - magnitude).abs() < TIE * magnitude;
            let at = values.iter().position(is_at).unwrap_or(0);
            wrong!(
                "absmax of a block of {} is {absmax}, expected {magnitude}, the magnitude of value {at}",
                values.len()
            )
        }
    }
}

fn is_packed(values: &[f32], packed: &[u8]) -> Verdict {
    match packed.len() {
        len if len == values.len() / 2 => Ok(()),
        len if len == values.len() => wrong!(
            "{len} values became {len} bytes, one code each: that is 8 bits per weight. Put two codes into a byte"
        ),
        len => wrong!("{} values became {len} bytes, expected {}", values.len(), values.len() / 2),
    }
}

/// How much farther each value, divided by `absmax`, is from the number of its code than from the nearest number.
fn excess(codebook: &Codebook, values: &[f32], codes: &[usize], absmax: f32) -> Vec<f32> {
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
fn is_swapped(codebook: &Codebook, values: &[f32], packed: &[u8], absmax: f32) -> bool {
    let sum = |swapped| excess(codebook, values, &in_order(packed, swapped), absmax).iter().sum::<f32>();
    sum(true) < 0.5 * sum(false)
}

fn first_is_high(codebook: &Codebook, values: &[f32], packed: &[u8], absmax: f32) -> Verdict {
    is_packed(values, packed)?;
    Complaint::unless(!is_swapped(codebook, values, packed, absmax), || {
        "the first value of each pair is in the low half of the byte. bitsandbytes has it in the high half \
             (`first << 4 | second`), and would read every pair of your weights the wrong way round"
    })
}

fn nearest(codebook: &Codebook, values: &[f32], packed: &[u8], absmax: f32) -> Verdict {
    is_packed(values, packed)?;
    if absmax.is_nan() || absmax <= 0.0 {
        return wrong!("absmax is {absmax}: no value can be divided by it");
    }
    let codes = in_order(packed, is_swapped(codebook, values, packed, absmax));
    let excess = excess(codebook, values, &codes, absmax);
    let Some(at) = excess.iter().position(|excess| excess.is_nan() || *excess >= TIE) else { return Ok(()) };
    let scaled = values[at] / absmax;
    let distance = |number: f32| (number - scaled).abs();
    let best = codebook.iter().copied().min_by(|a, b| distance(*a).total_cmp(&distance(*b))).unwrap_or(0.0);
    wrong!(
        "value {at} of {}, divided by absmax, is {scaled:.3}; it got code {}, which stands for {:.3}, but {best:.3} is \
         nearer",
        values.len(),
        codes[at],
        codebook[codes[at]]
    )
}

/// Like [`nearest`], for values so small that a limit on the scale would show.
fn is_scaled(codebook: &Codebook, values: &[f32], packed: &[u8], absmax: f32) -> Verdict {
    let magnitude = largest_magnitude(values);
    let is_near_zero = |code: &usize| codebook[*code].abs() < 0.01;
    if is_packed(values, packed).is_ok() && in_order(packed, false).iter().all(is_near_zero) {
        return wrong!(
            "a block whose largest magnitude is {magnitude:e} became all zeros: divide by absmax however small it is, and \
             by something else only if it is 0"
        );
    }
    nearest(codebook, values, packed, absmax)?;
    is_largest_magnitude(values, absmax)
}

fn zeros(name: &str, codebook: &Codebook, n: usize, answer: Result<(Vec<u8>, f32), Complaint>) -> Verdict {
    let why = "the largest magnitude is 0 then, and 0 / 0 is NaN: divide by 1 instead";
    let (packed, absmax) = answer.map_err(|complaint| match complaint {
        Complaint::Panicked(message) => Complaint::wrong(format!("it panicked: {message}. For {n} zeros, {why}")),
        other => other,
    })?;
    is_packed(&vec![0.0; n], &packed)?;
    match codes(&packed).find(|&code| codebook[code] != 0.0) {
        _ if !absmax.is_finite() => wrong!("absmax of {n} zeros is {absmax}; {why}"),
        Some(code) => wrong!(
            "{n} zeros got code {code}, which stands for {} in {name}: take a code whose number is 0 (if you divided: {why})",
            codebook[code]
        ),
        None if absmax != 0.0 => wrong!(
            "absmax of {n} zeros is {absmax}: it is the largest magnitude, which is 0; only what you divide by is 1"
        ),
        None => Ok(()),
    }
}

fn same_numbers(got: &[f32], expected: &[f32], absmax: f32) -> bool {
    let sorted = |numbers: &[f32]| {
        let mut numbers = numbers.to_vec();
        numbers.sort_by(f32::total_cmp);
        numbers
    };
    is(&sorted(got), &sorted(expected), absmax)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quantlab::quant::{Absmax, FourBitOptions, Quantized4Bit};

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
            // The library's own blocks have 64 values.
            for values in blocks().into_iter().filter(|values| values.len() <= 64) {
                let (packed, absmax) = quantize(&values);
                assert_eq!(is_largest_magnitude(&values, absmax), Ok(()));
                assert_eq!(nearest(quant_type.codebook(), &values, &packed, absmax), Ok(()));
            }
            let (packed, absmax) = quantize(&weights());
            assert_eq!(first_is_high(quant_type.codebook(), &weights(), &packed, absmax), Ok(()));
            assert_eq!(zeros("it", quant_type.codebook(), 64, Ok(quantize(&[0.0; 64]))), Ok(()));
        }
    }

    /// One right answer for each weight; otherwise a right variant might be refused.
    #[test]
    fn no_weight_lies_between_two_codes() {
        for codebook in [FourBit::Nf4.codebook(), FourBit::Fp4.codebook(), &UNEVEN] {
            for (block, absmax) in [(weights(), 0.0625), (short_block(), 1.5)] {
                for weight in block {
                    let distance = |number: &f32| (number - weight / absmax).abs();
                    let mut distances: Vec<f32> = codebook.iter().map(distance).collect();
                    distances.sort_by(f32::total_cmp);
                    // FP4 has two zeros.
                    let second = if distances[0] == distances[1] { distances[2] } else { distances[1] };
                    assert!(second - distances[0] > 10.0 * TIE, "{weight}");
                }
            }
        }
    }

    /// Otherwise an answer that never gives one of them would pass.
    #[test]
    fn every_number_is_the_nearest_of_some_value() {
        for quant_type in FourBit::ALL {
            let mut used: Vec<f32> = [(weights(), 0.0625_f32), (short_block(), 1.5)]
                .into_iter()
                .flat_map(|(block, absmax)| {
                    block.into_iter().map(move |weight| {
                        let distance = |number: &&f32| (*number - weight / absmax).abs();
                        let numbers = quant_type.codebook().iter();
                        *numbers.min_by(|a, b| distance(a).total_cmp(&distance(b))).unwrap()
                    })
                })
                .collect();
            used.sort_by(f32::total_cmp);
            used.dedup();
            let distinct = if quant_type == FourBit::Fp4 { 15 } else { 16 };
            assert_eq!(used.len(), distinct, "{quant_type}");
        }
    }
}

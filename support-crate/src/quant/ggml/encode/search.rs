//! Codes for a group of numbers, by a search for the scale with the least weighted squared error.
//!
//! Every operation on floating-point numbers stands in the order that llama.cpp has it in: another order rounds
//! otherwise, and now and then chooses another code.
//!
//! Source: `make_qx_quants`, `make_qkx3_quants` and `make_qp_quants` in llama.cpp's `ggml-quants.c`.

/// A group whose numbers, or scales, are all smaller is zero.
const SMALLEST: f32 = 1e-15;
/// The most numbers that share a scale and a minimum.
const LARGEST_GROUP: usize = 32;

/// The nearest whole number of one below 2^22 in size, halves to the even one: 1.5 * 2^23 moves it to where float32 has
/// no fractions. What comes out for any other number is whole too, and clamped by the callers.
pub(super) fn nearest(number: f32) -> i32 {
    let bits = (number + 12_582_912.0).to_bits();
    (bits & 0x007f_ffff).cast_signed() - 0x0040_0000
}

/// The number of largest magnitude, with its sign: the first of several.
pub(super) fn largest_magnitude(numbers: &[f32]) -> f32 {
    numbers.iter().fold(0.0_f32, |largest, &number| if number.abs() > largest.abs() { number } else { largest })
}

/// `number = scale * (code - levels)`: codes below `2 * levels`, and their scale, which may be negative. Without
/// `weights`, a number's error weighs as much as its square.
pub(super) fn symmetric(numbers: &[f32], weights: Option<&[f32]>, levels: u8, codes: &mut [u8]) -> f32 {
    let largest = largest_magnitude(numbers);
    if largest.abs() < SMALLEST {
        codes.fill(0);
        return 0.0;
    }
    let (most, whole) = (f32::from(levels), i32::from(levels));
    let code = |inverse: f32, number: f32| nearest(inverse * number).clamp(-whole, whole - 1);
    let fit = |inverse: f32| {
        let (mut by_code, mut squares) = (0.0, 0.0);
        for (i, &number) in numbers.iter().enumerate() {
            let code = code(inverse, number) as f32;
            let weight = weights.map_or(number * number, |weights| weights[i]);
            by_code += weight * number * code;
            squares += weight * code * code;
        }
        (by_code, squares)
    };
    let mut chosen = -most / largest;
    let (by_code, squares) = fit(chosen);
    let mut scale = if squares != 0.0 { by_code / squares } else { 0.0 };
    let mut best = scale * by_code;
    for step in (-9_i8..=9).filter(|&step| step != 0) {
        let inverse = -(most + 0.1 * f32::from(step)) / largest;
        let (by_code, squares) = fit(inverse);
        if squares > 0.0 && by_code * by_code > best * squares {
            chosen = inverse;
            scale = by_code / squares;
            best = scale * by_code;
        }
    }
    codes.iter_mut().zip(numbers).for_each(|(to, &number)| *to = (code(chosen, number) + whole) as u8);
    scale
}

/// The inverse scales that are tried: `(levels + first + i * step) / range` for `i` up to `last`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Steps {
    pub first: f32,
    pub step: f32,
    pub last: u8,
}

/// `number = scale * code - minimum`: codes up to `levels`, their scale, and the minimum, which is not negative.
pub(super) fn affine(
    numbers: &[f32],
    weights: &[f32],
    levels: u8,
    Steps { first, step, last }: Steps,
    codes: &mut [u8],
) -> (f32, f32) {
    let (mut min, mut max) = (numbers[0], numbers[0]);
    let mut sum_of_weights = weights[0];
    let mut sum = sum_of_weights * numbers[0];
    for (&number, &weight) in numbers.iter().zip(weights).skip(1) {
        if number < min {
            min = number;
        }
        if number > max {
            max = number;
        }
        sum_of_weights += weight;
        sum += weight * number;
    }
    if min > 0.0 {
        min = 0.0;
    }
    if max <= min {
        codes.fill(0);
        return (0.0, -min);
    }
    let most = f32::from(levels);
    let encode = |inverse: f32, min: f32, codes: &mut [u8]| {
        for (to, &number) in codes.iter_mut().zip(numbers) {
            *to = nearest(inverse * (number - min)).clamp(0, i32::from(levels)) as u8;
        }
    };
    let error = |codes: &[u8], scale: f32, min: f32| {
        let mut sum = 0.0;
        for ((&number, &weight), &code) in numbers.iter().zip(weights).zip(codes) {
            let difference = scale * f32::from(code) + min - number;
            sum += weight * (difference * difference);
        }
        sum
    };
    let inverse = most / (max - min);
    let mut scale = 1.0 / inverse;
    encode(inverse, min, codes);
    let mut least = error(codes, scale, min);
    let mut tried = [0; LARGEST_GROUP];
    let tried = &mut tried[..codes.len()];
    for i in 0..=last {
        // From the minimum of the best so far.
        encode((first + step * f32::from(i) + most) / (max - min), min, tried);
        let (mut by_weight, mut squares, mut by_number) = (0.0, 0.0, 0.0);
        for ((&number, &weight), &code) in numbers.iter().zip(weights).zip(&*tried) {
            let code = f32::from(code);
            by_weight += weight * code;
            squares += weight * code * code;
            by_number += weight * code * number;
        }
        // The line through the points (code, number), by least squares.
        let determinant = sum_of_weights * squares - by_weight * by_weight;
        if determinant > 0.0 {
            let mut slope = (sum_of_weights * by_number - sum * by_weight) / determinant;
            let mut intercept = (squares * sum - by_weight * by_number) / determinant;
            if intercept > 0.0 {
                intercept = 0.0;
                slope = by_number / squares;
            }
            let found = error(tried, slope, intercept);
            if found < least {
                codes.copy_from_slice(tried);
                (least, scale, min) = (found, slope, intercept);
            }
        }
    }
    (scale, -min)
}

/// `number = scale * code`: codes up to `levels` for numbers that are not negative, and their scale.
pub(super) fn positive(numbers: &[f32], weights: &[f32], levels: u8, codes: &mut [u8]) -> f32 {
    let max = numbers.iter().fold(0.0, |max, &number| if max > number { max } else { number });
    if max < SMALLEST {
        codes.fill(0);
        return 0.0;
    }
    let (most, whole) = (f32::from(levels), i32::from(levels));
    let code = |inverse: f32, number: f32| nearest(inverse * number).min(whole);
    let error = |inverse: f32| {
        let scale = 1.0 / inverse;
        let squares = numbers.iter().zip(weights).map(|(&number, &weight)| {
            let difference = number - scale * code(inverse, number) as f32;
            weight * difference * difference
        });
        squares.fold(0.0, |sum, square| sum + square)
    };
    let mut chosen = most / max;
    let mut least = error(chosen);
    for step in (-4_i8..=4).filter(|&step| step != 0) {
        let inverse = (0.1 * f32::from(step) + most) / max;
        let found = error(inverse);
        if found < least {
            (chosen, least) = (inverse, found);
        }
    }
    let (mut by_code, mut squares) = (0.0, 0.0);
    for ((to, &number), &weight) in codes.iter_mut().zip(numbers).zip(weights) {
        let code = code(chosen, number);
        *to = code as u8;
        by_code += weight * number * code as f32;
        squares += weight * (code as f32) * code as f32;
    }
    // One code after the other to what suits the scale that the others make.
    for _ in 0..5 {
        let mut changed = false;
        for ((code, &number), &weight) in codes.iter_mut().zip(numbers).zip(weights) {
            let old = f32::from(*code);
            let (mut others, mut others_squares) = (by_code - weight * number * old, squares - weight * old * old);
            if others > 0.0 && others_squares > 0.0 {
                let new = nearest(number * others_squares / others).min(whole);
                if new != i32::from(*code) {
                    others += weight * number * new as f32;
                    others_squares += weight * new as f32 * new as f32;
                    if others * others * squares > by_code * by_code * others_squares {
                        *code = new as u8;
                        (by_code, squares, changed) = (others, others_squares, true);
                    }
                }
            }
        }
        if !changed {
            break;
        }
    }
    if squares > 0.0 { by_code / squares } else { 0.0 }
}

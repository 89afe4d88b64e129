//! A sum of float32 in the order in which torch adds.

/// Lanes of a vector in torch's kernel, and vectors that it adds side by side.
const LANES: usize = 8;
const VECTORS: usize = 4;
/// Levels of partial sums.
const LEVELS: usize = 4;

/// The sum that `torch.sum` gives on an x86 CPU with one thread, to the last bit: double quantization
/// subtracts a mean from all `absmax`, and every bit of the result follows from it.
///
/// Partial sums are added to partial sums of as many numbers, so that rounding errors hardly grow with
/// the length.
///
/// Source: `cascade_sum` in PyTorch `aten/src/ATen/native/cpu/SumKernel.cpp`.
pub(super) fn cascade_sum(values: &[f32]) -> f32 {
    if values.len() < LANES { sum_in_lanes::<1>(values) } else { sum_in_lanes::<LANES>(values) }
}

fn sum_in_lanes<const L: usize>(values: &[f32]) -> f32 {
    let (vectors, rest) = values.as_chunks::<L>();
    let (rows, last_vectors) = vectors.as_chunks::<VECTORS>();
    let mut partial = sum_rows(rows);
    for vector in last_vectors {
        add(&mut partial[0], vector);
    }
    let [mut lanes, others @ ..] = partial;
    for other in &others {
        add(&mut lanes, other);
    }
    rest.iter().chain(&lanes).fold(0.0, |sum, value| sum + value)
}

/// The sum of rows: some of them are added first, then as many such sums, and so on.
fn sum_rows<const L: usize>(rows: &[[[f32; L]; VECTORS]]) -> [[f32; L]; VECTORS] {
    let power = (rows.len().max(1).next_power_of_two().trailing_zeros() / LEVELS as u32).max(4);
    let step = 1_usize << power;
    let mut levels = [[[0.0; L]; VECTORS]; LEVELS];
    let groups = rows.chunks_exact(step);
    let rest = groups.remainder();
    for (group, done) in groups.zip(1_usize..) {
        group.iter().for_each(|row| add_row(&mut levels[0], row));
        for level in 1..LEVELS {
            let lower = std::mem::replace(&mut levels[level - 1], [[0.0; L]; VECTORS]);
            add_row(&mut levels[level], &lower);
            if !done.is_multiple_of(step.pow(level as u32)) {
                break;
            }
        }
    }
    let [mut sum, higher @ ..] = levels;
    rest.iter().chain(&higher).for_each(|row| add_row(&mut sum, row));
    sum
}

fn add_row<const L: usize>(sum: &mut [[f32; L]; VECTORS], row: &[[f32; L]; VECTORS]) {
    sum.iter_mut().zip(row).for_each(|(sum, vector)| add(sum, vector));
}

fn add<const L: usize>(sum: &mut [f32; L], vector: &[f32; L]) {
    sum.iter_mut().zip(vector).for_each(|(sum, value)| *sum += value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_added_exactly_at_every_length() {
        for len in (0..200).chain([1_000, 4_095, 16_384, 100_003]) {
            let values: Vec<f32> = (0..len).map(|i| (i % 13) as f32).collect();
            assert_eq!(cascade_sum(&values), values.iter().map(|&value| f64::from(value)).sum::<f64>() as f32);
        }
    }

    /// Numbers between -0.5 and 0.5, whose sums are small enough to show the order of adding in their last
    /// bits; torch 2.13 on an x86 CPU, with `torch.set_num_threads(1)`.
    #[test]
    fn the_last_bits_are_those_of_torch() {
        for (len, bits) in [(5, 0xBEA3_AA82), (100, 0xBF3B_552D), (5_000, 0xBE80_3DD8), (100_003, 0xBE96_ECD8)] {
            let number = |i: u32| (i.wrapping_mul(2_654_435_761) >> 8) as f32 / 16_777_216.0 - 0.5;
            let values: Vec<f32> = (0..len).map(number).collect();
            assert_eq!(cascade_sum(&values).to_bits(), bits, "{len} numbers");
        }
    }

    #[test]
    fn rounding_errors_hardly_grow() {
        let values = vec![0.1_f32; 1 << 20];
        let expected = f64::from(0.1_f32) * values.len() as f64;
        assert!((f64::from(cascade_sum(&values)) / expected - 1.0).abs() < 1e-6);
    }
}

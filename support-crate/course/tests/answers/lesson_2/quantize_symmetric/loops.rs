// A loop for each step, halves to even, clipped although nothing can go beyond.
// right
fn quantize_symmetric(numbers: &[f32]) -> Result<Int8Vector> {
    let mut largest = 0.0_f32;
    for &x in numbers {
        if x.is_nan() || x.is_infinite() {
            return Err(Error::input("there is no place for NaN and infinity on a grid"));
        }
        if x.abs() > largest {
            largest = x.abs();
        }
    }
    let mut vector = Int8Vector { values: Vec::with_capacity(numbers.len()), scale: 1.0, zero_point: 0 };
    if largest != 0.0 {
        vector.scale = largest / 127.0;
    }
    for &x in numbers {
        vector.values.push((x / vector.scale).round_ties_even().clamp(-127.0, 127.0) as i8);
    }
    Ok(vector)
}

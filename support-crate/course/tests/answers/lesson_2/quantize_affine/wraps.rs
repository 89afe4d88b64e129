// Converts by way of whole numbers and does not clip.
// wrong: wrapped around
fn quantize_affine(numbers: &[f32]) -> Result<Int8Vector> {
    if let Some(bad) = numbers.iter().find(|x| !x.is_finite()) {
        return Err(Error::input(format!("{bad} cannot be quantized")));
    }
    let low = numbers.iter().copied().fold(0.0, f32::min);
    let high = numbers.iter().copied().fold(0.0, f32::max);
    let scale = if high > low { (high - low) / 255.0 } else { 1.0 };
    let zero_point = (-128.0 - low / scale).round() as i32;
    let values = numbers.iter().map(|x| ((x / scale).round() as i32 + zero_point) as i8).collect();
    Ok(Int8Vector { values, scale, zero_point })
}

// Steps from the smallest number to the largest.
// wrong: the affine grid
fn quantize_symmetric(numbers: &[f32]) -> Result<Int8Vector> {
    if let Some(bad) = numbers.iter().find(|x| !x.is_finite()) {
        return Err(Error::input(format!("{bad} cannot be quantized")));
    }
    let low = numbers.iter().copied().fold(0.0, f32::min);
    let high = numbers.iter().copied().fold(0.0, f32::max);
    let scale = if high > low { (high - low) / 255.0 } else { 1.0 };
    let values = numbers.iter().map(|x| (x / scale).round() as i8).collect();
    Ok(Int8Vector { values, scale, zero_point: 0 })
}

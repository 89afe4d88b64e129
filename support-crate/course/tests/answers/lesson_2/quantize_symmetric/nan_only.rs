// Finds NaN and overlooks infinity.
// wrong: inf at position
fn quantize_symmetric(numbers: &[f32]) -> Result<Int8Vector> {
    if let Some(bad) = numbers.iter().find(|x| x.is_nan()) {
        return Err(Error::input(format!("{bad} cannot be quantized")));
    }
    let largest = numbers.iter().fold(0.0_f32, |max, x| max.max(x.abs()));
    let scale = if largest > 0.0 { largest / 127.0 } else { 1.0 };
    let values = numbers.iter().map(|x| (x / scale).round() as i8).collect();
    Ok(Int8Vector { values, scale, zero_point: 0 })
}

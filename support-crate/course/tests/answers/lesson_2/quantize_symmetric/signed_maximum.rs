// The largest number instead of the largest magnitude.
// wrong: may be a negative number
fn quantize_symmetric(numbers: &[f32]) -> Result<Int8Vector> {
    if let Some(bad) = numbers.iter().find(|x| !x.is_finite()) {
        return Err(Error::input(format!("{bad} cannot be quantized")));
    }
    let largest = numbers.iter().fold(f32::MIN, |max, x| max.max(*x));
    let scale = if largest != 0.0 && !numbers.is_empty() { largest.abs() / 127.0 } else { 1.0 };
    let values = numbers.iter().map(|x| (x / scale).round() as i8).collect();
    Ok(Int8Vector { values, scale, zero_point: 0 })
}

// `max` passes over NaN, and `as i8` makes a 0 of it.
// wrong: as if all was well
fn quantize_symmetric(numbers: &[f32]) -> Result<Int8Vector> {
    let largest = numbers.iter().fold(0.0_f32, |max, x| max.max(x.abs()));
    let scale = if largest > 0.0 { largest / 127.0 } else { 1.0 };
    let values = numbers.iter().map(|x| (x / scale).round() as i8).collect();
    Ok(Int8Vector { values, scale, zero_point: 0 })
}

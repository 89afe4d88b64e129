// Looks for the largest number among about 1000 evenly spaced ones if there are many, and misses outliers.
// wrong: the largest magnitude is
fn quantize_symmetric(numbers: &[f32]) -> Result<Int8Vector> {
    if numbers.iter().any(|x| !x.is_finite()) {
        return Err(Error::input("NaN and infinity cannot be quantized"));
    }
    // A thousand numbers tell the range well enough.
    let step = (numbers.len() / 1000).max(1);
    let largest = numbers.iter().step_by(step).map(|x| x.abs()).fold(0.0_f32, f32::max);
    let scale = if largest > 0.0 { largest / 127.0 } else { 1.0 };
    let values = numbers.iter().map(|x| (x / scale).round().clamp(-127.0, 127.0) as i8).collect();
    Ok(Int8Vector { values, scale, zero_point: 0 })
}

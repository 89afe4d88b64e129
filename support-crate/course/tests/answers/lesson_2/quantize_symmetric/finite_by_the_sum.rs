// Looks for NaN and infinity by summing up, and refuses large numbers whose sum overflows.
// wrong: NaN or infinity cannot be quantized
fn quantize_symmetric(numbers: &[f32]) -> Result<Int8Vector> {
    let sum: f32 = numbers.iter().map(|x| x.abs()).sum();
    if !sum.is_finite() {
        return Err(Error::input("NaN or infinity cannot be quantized"));
    }
    let largest = numbers.iter().fold(0.0_f32, |max, x| max.max(x.abs()));
    let scale = if largest > 0.0 { largest / 127.0 } else { 1.0 };
    let values = numbers.iter().map(|x| (x / scale).round() as i8).collect();
    Ok(Int8Vector { values, scale, zero_point: 0 })
}

// Finds the zero point from the largest number, in float64.
// right
fn quantize_affine(numbers: &[f32]) -> Result<Int8Vector> {
    if let Some(bad) = numbers.iter().find(|x| !x.is_finite()) {
        return Err(Error::input(format!("{bad} cannot be quantized")));
    }
    let (mut low, mut high) = (0.0_f64, 0.0_f64);
    for &x in numbers {
        low = low.min(x.into());
        high = high.max(x.into());
    }
    let mut scale = (high - low) / 255.0;
    if scale == 0.0 {
        scale = 1.0;
    }
    let zero_point = (127.0 - high / scale).round() as i32;
    let mut values = Vec::new();
    for &x in numbers {
        let q = (f64::from(x) / scale).round() as i64 + i64::from(zero_point);
        values.push(q.clamp(-128, 127) as i8);
    }
    Ok(Int8Vector { values, scale: scale as f32, zero_point })
}

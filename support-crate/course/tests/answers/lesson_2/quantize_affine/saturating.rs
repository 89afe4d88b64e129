// Lets `as i8` do the clipping, which it does.
// right
fn quantize_affine(numbers: &[f32]) -> Result<Int8Vector> {
    if numbers.iter().any(|x| !x.is_finite()) {
        return Err(Error::input("NaN or infinity"));
    }
    if numbers.iter().all(|x| *x == 0.0) {
        return Ok(Int8Vector { values: vec![0; numbers.len()], scale: 1.0, zero_point: 0 });
    }
    let low = numbers.iter().fold(0.0_f32, |a, b| a.min(*b));
    let high = numbers.iter().fold(0.0_f32, |a, b| a.max(*b));
    let scale = (high - low) / 255.0;
    let zero_point = -128 - (low / scale).round() as i32;
    let values = numbers.iter().map(|x| ((x / scale).round() as i32 + zero_point) as f32 as i8).collect();
    Ok(Int8Vector { values, scale, zero_point })
}

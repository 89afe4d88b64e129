// Walks along the first vector by index.
// wrong: it panicked
fn int8_dot(x: &Int8Vector, w: &Int8Vector) -> Result<f32> {
    let product = |i: usize| (i32::from(x.values[i]) - x.zero_point) * (i32::from(w.values[i]) - w.zero_point);
    let sum: i32 = (0..x.values.len()).map(product).sum();
    Ok(x.scale * w.scale * sum as f32)
}

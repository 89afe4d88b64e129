// `zip` ends where the shorter vector does.
// wrong: silently dropped
fn int8_dot(x: &Int8Vector, w: &Int8Vector) -> Result<f32> {
    let pairs = x.values.iter().zip(&w.values);
    let product = |(&a, &b): (&i8, &i8)| (i32::from(a) - x.zero_point) * (i32::from(b) - w.zero_point);
    let sum: i32 = pairs.map(product).sum();
    Ok(x.scale * w.scale * sum as f32)
}

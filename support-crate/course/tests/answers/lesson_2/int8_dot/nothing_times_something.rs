// Takes nothing times something for 0.
// wrong: the rest of the longer one was silently dropped
fn int8_dot(x: &Int8Vector, w: &Int8Vector) -> Result<f32> {
    if x.values.is_empty() || w.values.is_empty() {
        return Ok(0.0);
    }
    if x.values.len() != w.values.len() {
        return Err(Error::input(format!("{} values and {}", x.values.len(), w.values.len())));
    }
    let pairs = x.values.iter().zip(&w.values);
    let product = |(&a, &b): (&i8, &i8)| (i32::from(a) - x.zero_point) * (i32::from(b) - w.zero_point);
    let sum: i32 = pairs.map(product).sum();
    Ok(x.scale * w.scale * sum as f32)
}

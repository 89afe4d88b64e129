// Multiplies whole numbers and adds them up in float32.
// wrong: rounds at every step
fn int8_dot(x: &Int8Vector, w: &Int8Vector) -> Result<f32> {
    if x.values.len() != w.values.len() {
        return Err(Error::input(format!("{} values and {}", x.values.len(), w.values.len())));
    }
    let pairs = x.values.iter().zip(&w.values);
    let product = |(&a, &b): (&i8, &i8)| (i32::from(a) - x.zero_point) * (i32::from(b) - w.zero_point);
    let sum: f32 = pairs.map(product).map(|product| product as f32).sum();
    Ok(x.scale * w.scale * sum)
}

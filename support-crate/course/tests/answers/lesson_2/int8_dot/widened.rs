// Widens both vectors first.
// right
fn int8_dot(x: &Int8Vector, w: &Int8Vector) -> Result<f32> {
    if x.values.len() != w.values.len() {
        return Err(Error::input(format!("{} values and {}", x.values.len(), w.values.len())));
    }
    let widened = |vector: &Int8Vector| -> Vec<i32> {
        vector.values.iter().map(|value| *value as i32 - vector.zero_point).collect()
    };
    let sum: i32 = widened(x).iter().zip(widened(w)).map(|(a, b)| a * b).sum();
    Ok(sum as f32 * (x.scale * w.scale))
}

// Multiplies the values as they are.
// wrong: as if their zero points were 0
fn int8_dot(x: &Int8Vector, w: &Int8Vector) -> Result<f32> {
    if x.values.len() != w.values.len() {
        return Err(Error::input(format!("{} values and {}", x.values.len(), w.values.len())));
    }
    let pairs = x.values.iter().zip(&w.values);
    let sum: i32 = pairs.map(|(&a, &b)| i32::from(a) * i32::from(b)).sum();
    Ok(x.scale * w.scale * sum as f32)
}

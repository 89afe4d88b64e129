// Multiplies in int8, where two values seldom fit.
// wrong: yours is
fn int8_dot(x: &Int8Vector, w: &Int8Vector) -> Result<f32> {
    if x.values.len() != w.values.len() {
        return Err(Error::input(format!("{} values and {}", x.values.len(), w.values.len())));
    }
    let pairs = x.values.iter().zip(&w.values);
    let sum: i32 = pairs.map(|(&a, &b)| i32::from(a.wrapping_sub(x.zero_point as i8).wrapping_mul(b.wrapping_sub(w.zero_point as i8)))).sum();
    Ok(x.scale * w.scale * sum as f32)
}

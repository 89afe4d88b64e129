// Turns the vectors back into float32 and multiplies those.
// wrong: rounds at every step
fn int8_dot(x: &Int8Vector, w: &Int8Vector) -> Result<f32> {
    if x.values.len() != w.values.len() {
        return Err(Error::input(format!("{} values and {}", x.values.len(), w.values.len())));
    }
    Ok(x.dequantize().iter().zip(w.dequantize()).map(|(a, b)| a * b).sum())
}

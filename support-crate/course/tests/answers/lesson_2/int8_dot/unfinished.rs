// Not started.
// not yet
fn int8_dot(x: &Int8Vector, w: &Int8Vector) -> Result<f32> {
    todo!()
}

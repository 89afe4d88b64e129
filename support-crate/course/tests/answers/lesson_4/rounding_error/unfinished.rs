// Nobody has written it yet.
// not yet
fn rounding_error(weights: &[f32], restored: &[f32]) -> f64 {
    todo!()
}

// Nobody has written it yet.
// not yet
fn kl_divergence(base: &[f32], other: &[f32]) -> f64 {
    todo!()
}

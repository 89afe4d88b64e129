// Nobody has written it yet.
// not yet
fn probabilities(logits: &[f32], sampling: &Sampling) -> Vec<f64> {
    todo!()
}

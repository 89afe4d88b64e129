// Nobody has written it yet.
// not yet
fn rms_norm(x: &[f32], scale: &[f32], epsilon: f32) -> Vec<f32> {
    todo!()
}

// Nobody has written it yet.
// not yet
fn write(model: &Llama, ids: &[u32], sampling: &Sampling, uniforms: &[f64]) -> Vec<u32> {
    todo!()
}

// Nobody has written it yet.
// not yet
fn next_logits(ids: &[u32], model: &Llama) -> Vec<f32> {
    todo!()
}

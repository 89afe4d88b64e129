// Computes everything anew, which is slow and right.
// right
fn write(model: &Llama, ids: &[u32], sampling: &Sampling, uniforms: &[f64]) -> Vec<u32> {
    let mut all = ids.to_vec();
    for u in uniforms {
        let mut cache = Cache::new(model.shape.n_layer);
        let mut logits = vec![];
        all.iter().for_each(|&id| logits = step(id, model, &mut cache));
        all.push(draw(&probabilities(&logits, sampling), *u));
    }
    all[ids.len()..].to_vec()
}

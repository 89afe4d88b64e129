// Reads the prompt's last token twice.
// wrong: goes through `step` once
fn write(model: &Llama, ids: &[u32], sampling: &Sampling, uniforms: &[f64]) -> Vec<u32> {
    let mut cache = Cache::new(model.shape.n_layer);
    let mut logits = Vec::new();
    for &id in ids {
        logits = step(id, model, &mut cache);
    }
    logits = step(ids[ids.len() - 1], model, &mut cache);
    let mut tokens = Vec::new();
    for &uniform in uniforms {
        if let Some(&token) = tokens.last() {
            logits = step(token, model, &mut cache);
        }
        tokens.push(draw(&probabilities(&logits, sampling), uniform));
    }
    tokens
}

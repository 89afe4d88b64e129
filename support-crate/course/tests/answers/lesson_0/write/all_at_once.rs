// A queue of tokens to read, and no special case.
// right
fn write(model: &Llama, ids: &[u32], sampling: &Sampling, uniforms: &[f64]) -> Vec<u32> {
    let mut cache = Cache::new(model.blocks.len());
    let (mut to_read, mut new) = (ids.to_vec(), vec![]);
    for &u in uniforms {
        let logits = to_read.iter().map(|&id| step(id, model, &mut cache)).last().unwrap();
        let token = draw(&probabilities(&logits, sampling), u);
        new.push(token);
        to_read = vec![token];
    }
    new
}

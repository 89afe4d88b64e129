// An epsilon of its own in the last norm.
// wrong: next_logits after 1 token,
fn next_logits(ids: &[u32], model: &Llama) -> Vec<f32> {
    let c = model.shape.hidden_size;
    let mut x: Vec<Vec<f32>> = Vec::new();
    for &id in ids {
        let at = id as usize * c;
        x.push(model.embedding[at..at + c].to_vec());
    }
    for block in &model.blocks {
        run_block(&mut x, block, &model.shape);
    }
    let last = &x[x.len() - 1];
    let normed = rms_norm(last, &model.final_norm, 1e-6);
    let head = model.head.as_ref().unwrap_or(&model.embedding);
    matvec(head, &normed)
}

// Ids of 8 bits.
// wrong: next_logits after 20 tokens
fn next_logits(ids: &[u32], model: &Llama) -> Vec<f32> {
    let c = model.shape.hidden_size;
    let mut x: Vec<Vec<f32>> = Vec::new();
    for &id in ids {
        let at = id as u8 as usize * c;
        x.push(model.embedding[at..at + c].to_vec());
    }
    for block in &model.blocks {
        run_block(&mut x, block, &model.shape);
    }
    let last = &x[x.len() - 1];
    let normed = rms_norm(last, &model.final_norm, model.shape.epsilon);
    let head = model.head.as_ref().unwrap_or(&model.embedding);
    matvec(head, &normed)
}

// With a match for the head.
// right
fn next_logits(ids: &[u32], model: &Llama) -> Vec<f32> {
    let c = model.shape.hidden_size;
    let mut x = Vec::new();
    for id in ids {
        let start = *id as usize * c;
        x.push(Vec::from(&model.embedding[start..start + c]));
    }
    model.blocks.iter().for_each(|block| run_block(&mut x, block, &model.shape));
    let last = x.pop().unwrap();
    let normed = rms_norm(&last, &model.final_norm, model.shape.epsilon);
    match &model.head {
        Some(head) => matvec(head, &normed),
        None => matvec(&model.embedding, &normed),
    }
}

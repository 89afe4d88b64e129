// The logits of all positions.
// wrong: are expected
fn next_logits(ids: &[u32], model: &Llama) -> Vec<f32> {
    let c = model.shape.hidden_size;
    let embed = |id: &u32| model.embedding[*id as usize * c..][..c].to_vec();
    let mut x: Vec<Vec<f32>> = ids.iter().map(embed).collect();
    for block in &model.blocks {
        run_block(&mut x, block, &model.shape);
    }
    let head = model.head.as_ref().unwrap_or(&model.embedding);
    x.iter().flat_map(|x| matvec(head, &rms_norm(x, &model.final_norm, model.shape.epsilon))).collect()
}

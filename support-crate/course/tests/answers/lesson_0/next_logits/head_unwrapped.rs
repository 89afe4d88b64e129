// Takes every model to have a head.
// wrong: it panicked
fn next_logits(ids: &[u32], model: &Llama) -> Vec<f32> {
    let c = model.shape.hidden_size;
    let embed = |id: &u32| model.embedding[*id as usize * c..][..c].to_vec();
    let mut x: Vec<Vec<f32>> = ids.iter().map(embed).collect();
    for block in &model.blocks {
        run_block(&mut x, block, &model.shape);
    }
    let last = rms_norm(&x[ids.len() - 1], &model.final_norm, model.shape.epsilon);
    matvec(model.head.as_ref().unwrap(), &last)
}

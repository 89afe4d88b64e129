// With helper closures, and the cache borrowed anew.
// right
fn step(id: u32, model: &Llama, cache: &mut Cache) -> Vec<f32> {
    let shape = model.shape;
    let t = cache.tokens;
    let turn = |mut v: Vec<f32>| {
        v.chunks_mut(shape.head_dim).for_each(|h| rotate(h, t, shape.rope_base));
        v
    };
    let row = id as usize * shape.hidden_size..(id as usize + 1) * shape.hidden_size;
    let mut x: Vec<f32> = model.embedding[row].into();
    for layer in 0..shape.n_layer {
        let block = &model.blocks[layer];
        let n = rms_norm(&x, &block.attention_norm, shape.epsilon);
        cache.keys[layer].extend_from_slice(&turn(matvec(&block.k, &n)));
        cache.values[layer].extend_from_slice(&matvec(&block.v, &n));
        let q = turn(matvec(&block.q, &n));
        let a = matvec(&block.o, &attend(&q, &cache.keys[layer], &cache.values[layer], t, &shape));
        for i in 0..x.len() {
            x[i] += a[i];
        }
        let m = mlp(&rms_norm(&x, &block.mlp_norm, shape.epsilon), block);
        x = x.iter().zip(&m).map(|(x, m)| x + m).collect();
    }
    cache.tokens = t + 1;
    let normed = rms_norm(&x, &model.final_norm, shape.epsilon);
    if let Some(head) = &model.head { matvec(head, &normed) } else { matvec(&model.embedding, &normed) }
}

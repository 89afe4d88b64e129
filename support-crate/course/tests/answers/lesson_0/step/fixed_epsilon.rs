// An epsilon of its own.
// wrong: logits after token 0
fn step(id: u32, model: &Llama, cache: &mut Cache) -> Vec<f32> {
    let shape = &model.shape;
    let (c, d, eps) = (shape.hidden_size, shape.head_dim, 1e-5);
    let position = cache.tokens;
    cache.tokens += 1;
    let mut x = model.embedding[id as usize * c..][..c].to_vec();
    for (layer, block) in model.blocks.iter().enumerate() {
        let normed = rms_norm(&x, &block.attention_norm, eps);
        let mut q = matvec(&block.q, &normed);
        let mut k = matvec(&block.k, &normed);
        let v = matvec(&block.v, &normed);
        q.chunks_mut(d).for_each(|head| rotate(head, position, shape.rope_base));
        k.chunks_mut(d).for_each(|head| rotate(head, position, shape.rope_base));
        cache.keys[layer].extend(k);
        cache.values[layer].extend(v);
        let (keys, values) = (&cache.keys[layer], &cache.values[layer]);
        let out = matvec(&block.o, &attend(&q, keys, values, position, shape));
        for (x, o) in x.iter_mut().zip(out) {
            *x += o;
        }
        let normed = rms_norm(&x, &block.mlp_norm, eps);
        for (x, m) in x.iter_mut().zip(mlp(&normed, block)) {
            *x += m;
        }
    }
    let head = model.head.as_ref().unwrap_or(&model.embedding);
    matvec(head, &rms_norm(&x, &model.final_norm, eps))
}

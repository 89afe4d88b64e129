// Turns the query and forgets the key.
// wrong: turn a key by its position before it goes into the cache
fn step(id: u32, model: &Llama, cache: &mut Cache) -> Vec<f32> {
    let (shape, position) = (&model.shape, cache.tokens);
    let (c, d, base) = (shape.hidden_size, shape.head_dim, shape.rope_base);
    let mut x = model.embedding[id as usize * c..][..c].to_vec();
    for (layer, block) in model.blocks.iter().enumerate() {
        let normed = rms_norm(&x, &block.attention_norm, shape.epsilon);
        let (mut q, mut k) = (matvec(&block.q, &normed), matvec(&block.k, &normed));
        q.chunks_exact_mut(d).for_each(|head| rotate(head, position, base));
        let (keys, values) = (&mut cache.keys[layer], &mut cache.values[layer]);
        keys.extend(k);
        values.extend(matvec(&block.v, &normed));
        let out = matvec(&block.o, &attend(&q, keys, values, position, shape));
        x.iter_mut().zip(out).for_each(|(x, out)| *x += out);
        let out = mlp(&rms_norm(&x, &block.mlp_norm, shape.epsilon), block);
        x.iter_mut().zip(out).for_each(|(x, out)| *x += out);
    }
    cache.tokens += 1;
    let last = rms_norm(&x, &model.final_norm, shape.epsilon);
    matvec(model.head.as_ref().unwrap_or(&model.embedding), &last)
}

// Both norms with the scale of the first.
// wrong: both norms have the scale `attention_norm`
fn run_block(x: &mut [Vec<f32>], block: &Block, shape: &Shape) {
    let (d, base) = (shape.head_dim, shape.rope_base);
    let (mut queries, mut keys, mut values) = (Vec::new(), Vec::new(), Vec::new());
    for (t, x) in x.iter().enumerate() {
        let normed = rms_norm(x, &block.attention_norm, shape.epsilon);
        let (mut q, mut k) = (matvec(&block.q, &normed), matvec(&block.k, &normed));
        q.chunks_exact_mut(d).for_each(|head| rotate(head, t, base));
        k.chunks_exact_mut(d).for_each(|head| rotate(head, t, base));
        queries.push(q);
        keys.extend(k);
        values.extend(matvec(&block.v, &normed));
    }
    for (t, x) in x.iter_mut().enumerate() {
        let out = matvec(&block.o, &attend(&queries[t], &keys, &values, t, shape));
        x.iter_mut().zip(out).for_each(|(x, out)| *x += out);
        let out = mlp(&rms_norm(x, &block.attention_norm, shape.epsilon), block);
        x.iter_mut().zip(out).for_each(|(x, out)| *x += out);
    }
}

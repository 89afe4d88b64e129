// An epsilon of its own.
// wrong: add `shape.epsilon`
fn run_block(x: &mut [Vec<f32>], block: &Block, shape: &Shape) {
    let (d, eps, base) = (shape.head_dim, 1e-5, shape.rope_base);
    let mut queries = Vec::new();
    let (mut keys, mut values) = (Vec::new(), Vec::new());
    for (t, state) in x.iter().enumerate() {
        let normed = rms_norm(state, &block.attention_norm, eps);
        let mut q = matvec(&block.q, &normed);
        let mut k = matvec(&block.k, &normed);
        let v = matvec(&block.v, &normed);
        for head in q.chunks_mut(d) {
            rotate(head, t, base);
        }
        for head in k.chunks_mut(d) {
            rotate(head, t, base);
        }
        queries.push(q);
        keys.extend(k);
        values.extend(v);
    }
    for (t, state) in x.iter_mut().enumerate() {
        let seen = attend(&queries[t], &keys, &values, t, shape);
        let out = matvec(&block.o, &seen);
        for (s, o) in state.iter_mut().zip(out) {
            *s += o;
        }
        let normed = rms_norm(state, &block.mlp_norm, eps);
        for (s, m) in state.iter_mut().zip(mlp(&normed, block)) {
            *s += m;
        }
    }
}

// All keys first, then the tokens from the last to the first.
// right
fn run_block(x: &mut [Vec<f32>], block: &Block, shape: &Shape) {
    let d = shape.head_dim;
    let n = x.len();
    let normed: Vec<Vec<f32>> =
        x.iter().map(|x| rms_norm(x, &block.attention_norm, shape.epsilon)).collect();
    let mut keys = vec![0.0; n * shape.n_kv_head * d];
    for (t, row) in keys.chunks_mut(shape.n_kv_head * d).enumerate() {
        row.copy_from_slice(&matvec(&block.k, &normed[t]));
        for j in 0..shape.n_kv_head {
            rotate(&mut row[j * d..(j + 1) * d], t, shape.rope_base);
        }
    }
    let values: Vec<f32> = normed.iter().map(|n| matvec(&block.v, n)).collect::<Vec<_>>().concat();
    for t in (0..n).rev() {
        let mut q = matvec(&block.q, &normed[t]);
        for h in 0..shape.n_head {
            rotate(&mut q[h * d..][..d], t, shape.rope_base);
        }
        let o = matvec(&block.o, &attend(&q, &keys, &values, t, shape));
        let state: Vec<f32> = x[t].iter().zip(o).map(|(x, o)| x + o).collect();
        let m = mlp(&rms_norm(&state, &block.mlp_norm, shape.epsilon), block);
        x[t] = state.iter().zip(m).map(|(x, m)| x + m).collect();
    }
}

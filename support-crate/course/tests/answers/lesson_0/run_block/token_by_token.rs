// One loop, each token attending as soon as its key is there.
// right
fn run_block(x: &mut [Vec<f32>], block: &Block, shape: &Shape) {
    let (mut keys, mut values) = (vec![], vec![]);
    for t in 0..x.len() {
        let normed = rms_norm(&x[t], &block.attention_norm, shape.epsilon);
        let mut q = matvec(&block.q, &normed);
        let mut k = matvec(&block.k, &normed);
        for h in 0..shape.n_head {
            rotate(&mut q[h * shape.head_dim..(h + 1) * shape.head_dim], t, shape.rope_base);
        }
        for h in 0..shape.n_kv_head {
            rotate(&mut k[h * shape.head_dim..(h + 1) * shape.head_dim], t, shape.rope_base);
        }
        keys.append(&mut k);
        values.append(&mut matvec(&block.v, &normed));
        let attended = matvec(&block.o, &attend(&q, &keys, &values, t, shape));
        for (x, a) in x[t].iter_mut().zip(&attended) {
            *x += a;
        }
        let m = mlp(&rms_norm(&x[t], &block.mlp_norm, shape.epsilon), block);
        for i in 0..m.len() {
            x[t][i] += m[i];
        }
    }
}

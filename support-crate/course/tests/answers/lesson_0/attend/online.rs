// One pass over the tokens, with a running maximum.
// right
fn attend(q: &[f32], keys: &[f32], values: &[f32], position: usize, shape: &Shape) -> Vec<f32> {
    let d = shape.head_dim;
    let mut out = Vec::new();
    for h in 0..shape.n_head {
        let q = &q[h * d..(h + 1) * d];
        let kv = h * shape.n_kv_head / shape.n_head;
        let (mut max, mut sum, mut acc) = (f32::MIN, 0.0, vec![0.0; d]);
        for t in 0..position + 1 {
            let at = t * shape.n_kv_head * d + kv * d;
            let mut dot = 0.0;
            for i in 0..d {
                dot += q[i] * keys[at + i];
            }
            let score = dot * (d as f32).powf(-0.5);
            let new = max.max(score);
            let (old, weight) = ((max - new).exp(), (score - new).exp());
            sum = sum * old + weight;
            for i in 0..d {
                acc[i] = acc[i] * old + weight * values[at + i];
            }
            max = new;
        }
        out.extend(acc.iter().map(|a| a / sum));
    }
    out
}

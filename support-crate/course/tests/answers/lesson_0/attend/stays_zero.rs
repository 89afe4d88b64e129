// Adds the values up in a copy.
// wrong: all of it is 0
fn attend(q: &[f32], keys: &[f32], values: &[f32], position: usize, shape: &Shape) -> Vec<f32> {
    let (d, group) = (shape.head_dim, shape.n_head / shape.n_kv_head);
    let mut out = vec![0.0; q.len()];
    for (h, (q, out)) in q.chunks_exact(d).zip(out.chunks_exact_mut(d)).enumerate() {
        let start = |t: usize| (t * shape.n_kv_head + h / group) * d;
        let score = |t: usize| {
            let key = &keys[start(t)..][..d];
            q.iter().zip(key).map(|(q, k)| q * k).sum::<f32>() / (d as f32).sqrt()
        };
        let scores: Vec<f32> = (0..=position).map(score).collect();
        let largest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let weights: Vec<f32> = scores.iter().map(|score| (score - largest).exp()).collect();
        let sum: f32 = weights.iter().sum();
        let mut out = out.to_vec();
        for (t, weight) in weights.iter().enumerate() {
            let value = &values[start(t)..][..d];
            out.iter_mut().zip(value).for_each(|(out, v)| *out += weight / sum * v);
        }
    }
    out
}

// The mean of both directions.
// wrong: it is not symmetric
fn kl_divergence(base: &[f32], other: &[f32]) -> f64 {
    let one_way = |a: &[f32], b: &[f32]| -> f64 {
        let term = |id: u32| log_softmax_at(a, id).exp() * (log_softmax_at(a, id) - log_softmax_at(b, id));
        (0..a.len() as u32).map(term).sum()
    };
    (one_way(base, other) + one_way(other, base)) / 2.0
}

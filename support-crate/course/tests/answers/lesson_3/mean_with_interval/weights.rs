// Each draw's mean, with its share of the tokens as its weight.
// right
fn mean_with_interval(draws: &[LossSum]) -> Estimate {
    let tokens: usize = draws.iter().map(|draw| draw.tokens).sum();
    let k = draws.len() as f64;
    let shares: Vec<f64> = draws.iter().map(|draw| draw.tokens as f64 / tokens as f64).collect();
    let mean: f64 = draws.iter().zip(&shares).map(|(draw, share)| share * draw.mean()).sum();
    let variance: f64 = draws.iter().zip(&shares).map(|(draw, share)| (share * (draw.mean() - mean)).powi(2)).sum();
    Estimate::plus_minus(mean, student_t_95(draws.len() - 1) * (variance * k / (k - 1.0)).sqrt())
}

// The t of very many draws.
// wrong: 1.96 is for many draws
fn mean_with_interval(draws: &[LossSum]) -> Estimate {
    let (all, k) = (draws.iter().sum::<LossSum>(), draws.len() as f64);
    let deviation = |draw: &LossSum| draw.nll - all.mean() * draw.tokens as f64;
    let squares: f64 = draws.iter().map(|draw| deviation(draw).powi(2)).sum();
    let error = (squares * k / (k - 1.0)).sqrt() / all.tokens as f64;
    let t = 1.96;
    Estimate::plus_minus(all.mean(), t * error)
}

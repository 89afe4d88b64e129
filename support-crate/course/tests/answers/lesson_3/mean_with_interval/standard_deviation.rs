// The spread of the draws' means around the mean of all tokens, for the error of that mean.
// wrong: varies less than one of them
fn mean_with_interval(draws: &[LossSum]) -> Estimate {
    let (all, k) = (draws.iter().sum::<LossSum>(), draws.len() as f64);
    let squares: f64 = draws.iter().map(|draw| (draw.mean() - all.mean()).powi(2)).sum();
    Estimate::plus_minus(all.mean(), student_t_95(draws.len() - 1) * (squares / (k - 1.0)).sqrt())
}

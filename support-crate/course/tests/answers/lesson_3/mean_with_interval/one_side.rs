// Only upwards.
// wrong: the distance from the value to `low`
fn mean_with_interval(draws: &[LossSum]) -> Estimate {
    let (all, k) = (draws.iter().sum::<LossSum>(), draws.len() as f64);
    let deviation = |draw: &LossSum| draw.nll - all.mean() * draw.tokens as f64;
    let squares: f64 = draws.iter().map(|draw| deviation(draw).powi(2)).sum();
    let error = (squares * k / (k - 1.0)).sqrt() / all.tokens as f64;
    let t = student_t_95(draws.len() - 1);
    Estimate::new(all.mean(), all.mean(), all.mean() + t * error)
}

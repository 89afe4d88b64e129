// The right mean, with the error of the mean of means.
// wrong: here every draw counts the same
fn mean_with_interval(draws: &[LossSum]) -> Estimate {
    let means: Vec<f64> = draws.iter().map(LossSum::mean).collect();
    let k = means.len() as f64;
    let mean = means.iter().sum::<f64>() / k;
    let squares: f64 = means.iter().map(|x| (x - mean).powi(2)).sum();
    let all: LossSum = draws.iter().sum();
    Estimate::plus_minus(all.mean(), student_t_95(means.len() - 1) * (squares / (k - 1.0) / k).sqrt())
}

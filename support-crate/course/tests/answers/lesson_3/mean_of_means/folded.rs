// One pass, and NaN left out.
// right
fn mean_of_means(losses: &[LossSum], batch_size: usize) -> f64 {
    let mean = |batch: &[LossSum]| {
        let nll: f64 = batch.iter().map(|loss| loss.nll).sum();
        nll / batch.iter().map(|loss| loss.tokens).sum::<usize>() as f64
    };
    let means = losses.chunks(batch_size).map(mean).filter(|mean| !mean.is_nan());
    let (sum, count) = means.fold((0.0, 0.0), |(sum, count), mean| (sum + mean, count + 1.0));
    sum / count
}

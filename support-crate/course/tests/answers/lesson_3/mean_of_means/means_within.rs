// Means within the batch, too.
// wrong: within a batch every token counts the same
fn mean_of_means(losses: &[LossSum], batch_size: usize) -> f64 {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let of_batch = |batch: &[LossSum]| {
        let means: Vec<f64> = batch.iter().filter(|sum| sum.tokens > 0).map(LossSum::mean).collect();
        mean(&means)
    };
    let means: Vec<f64> = losses.chunks(batch_size).map(of_batch).filter(|mean| !mean.is_nan()).collect();
    mean(&means)
}

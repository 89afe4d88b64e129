// Does not divide.
// wrong: this is the sum of the means
fn mean_of_means(losses: &[LossSum], batch_size: usize) -> f64 {
    let batches = losses.chunks(batch_size).map(|batch| batch.iter().sum::<LossSum>());
    let means: Vec<f64> = batches.filter(|sum| sum.tokens > 0).map(|sum| sum.mean()).collect();
    means.iter().sum()
}

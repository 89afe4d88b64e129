// Leaves out batches of one token, too.
// wrong: a batch of one predicted token has a mean
fn mean_of_means(losses: &[LossSum], batch_size: usize) -> f64 {
    let batches = losses.chunks(batch_size).map(|batch| batch.iter().sum::<LossSum>());
    let means: Vec<f64> = batches.filter(|sum| sum.tokens > 1).map(|sum| sum.mean()).collect();
    means.iter().sum::<f64>() / means.len() as f64
}

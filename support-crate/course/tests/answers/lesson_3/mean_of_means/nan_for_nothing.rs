// A batch without tokens has a mean, too.
// wrong: the mean over 0 tokens is 0 / 0
fn mean_of_means(losses: &[LossSum], batch_size: usize) -> f64 {
    let batches = losses.chunks(batch_size).map(|batch| batch.iter().sum::<LossSum>());
    let means: Vec<f64> = batches.map(|sum| sum.mean()).collect();
    means.iter().sum::<f64>() / means.len() as f64
}

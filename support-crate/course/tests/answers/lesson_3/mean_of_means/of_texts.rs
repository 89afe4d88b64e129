// Every text is a batch.
// wrong: this is the mean of the texts' means
fn mean_of_means(losses: &[LossSum], batch_size: usize) -> f64 {
    let means: Vec<f64> = losses.iter().filter(|sum| sum.tokens > 0).map(LossSum::mean).collect();
    means.iter().sum::<f64>() / means.len() as f64
}

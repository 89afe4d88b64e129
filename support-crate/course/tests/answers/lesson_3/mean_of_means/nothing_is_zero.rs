// A batch without tokens has a loss of 0.
// wrong: as if its loss were 0
fn mean_of_means(losses: &[LossSum], batch_size: usize) -> f64 {
    let batches = losses.chunks(batch_size).map(|batch| batch.iter().sum::<LossSum>());
    let means: Vec<f64> = batches.map(|sum| if sum.tokens > 0 { sum.mean() } else { 0.0 }).collect();
    means.iter().sum::<f64>() / means.len() as f64
}

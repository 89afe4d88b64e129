// The smaller batch counts for less.
// wrong: each batch was weighted by the number of its texts
fn mean_of_means(losses: &[LossSum], batch_size: usize) -> f64 {
    let mut sum = 0.0;
    let mut texts = 0;
    for batch in losses.chunks(batch_size) {
        let all: LossSum = batch.iter().sum();
        if all.tokens > 0 {
            sum += all.mean() * batch.len() as f64;
            texts += batch.len();
        }
    }
    sum / texts as f64
}

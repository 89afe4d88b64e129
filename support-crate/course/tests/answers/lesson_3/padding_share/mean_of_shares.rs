// Every batch counts the same.
// wrong: this is the mean of the batches' shares
fn padding_share(lengths: &[usize], batch_size: usize) -> f64 {
    let share = |batch: &[usize]| {
        let all = batch.len() * batch.iter().copied().max().unwrap_or(0);
        (all - batch.iter().sum::<usize>()) as f64 / all.max(1) as f64
    };
    let shares: Vec<f64> = lengths.chunks(batch_size).map(share).collect();
    shares.iter().sum::<f64>() / shares.len().max(1) as f64
}

// Leaves out what does not fill a batch.
// wrong: the last batch is missing
fn padding_share(lengths: &[usize], batch_size: usize) -> f64 {
    let longest = |batch: &[usize]| batch.iter().copied().max().unwrap_or(0);
    let computed: usize = lengths.chunks_exact(batch_size).map(|batch| batch.len() * longest(batch)).sum();
    let text: usize = lengths.chunks_exact(batch_size).map(|batch| batch.iter().sum::<usize>()).sum();
    (computed - text) as f64 / computed.max(1) as f64
}

// Takes texts for sorted, the longest first.
// wrong: the first text of a batch need not be the longest
fn padding_share(lengths: &[usize], batch_size: usize) -> f64 {
    let longest = |batch: &[usize]| batch.iter().copied().max().unwrap_or(0);
    let computed: usize = lengths.chunks(batch_size).map(|batch| batch.len() * batch.first().unwrap_or(&0)).sum();
    let text: usize = lengths.iter().sum();
    (computed as f64 - text as f64) / computed.max(1) as f64
}

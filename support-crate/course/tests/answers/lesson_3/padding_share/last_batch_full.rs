// Every batch has batch_size rows.
// wrong: the last batch has no more rows
fn padding_share(lengths: &[usize], batch_size: usize) -> f64 {
    let longest = |batch: &[usize]| batch.iter().copied().max().unwrap_or(0);
    let computed: usize = lengths.chunks(batch_size).map(|batch| batch_size * longest(batch)).sum();
    let text: usize = lengths.iter().sum();
    (computed - text) as f64 / computed.max(1) as f64
}

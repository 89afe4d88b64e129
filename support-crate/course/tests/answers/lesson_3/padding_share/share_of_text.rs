// What is no padding.
// wrong: this is the share of text
fn padding_share(lengths: &[usize], batch_size: usize) -> f64 {
    let longest = |batch: &[usize]| batch.iter().copied().max().unwrap_or(0);
    let computed: usize = lengths.chunks(batch_size).map(|batch| batch.len() * longest(batch)).sum();
    let text: usize = lengths.iter().sum();
    text as f64 / computed.max(1) as f64
}

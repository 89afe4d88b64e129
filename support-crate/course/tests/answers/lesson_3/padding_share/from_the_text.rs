// One less the share of text.
// right
fn padding_share(lengths: &[usize], batch_size: usize) -> f64 {
    let longest = |batch: &[usize]| batch.iter().copied().max().unwrap_or(0);
    let computed: usize = lengths.chunks(batch_size).map(|batch| batch.len() * longest(batch)).sum();
    let text: usize = lengths.iter().sum();
    if computed == 0 { 0.0 } else { 1.0 - text as f64 / computed as f64 }
}

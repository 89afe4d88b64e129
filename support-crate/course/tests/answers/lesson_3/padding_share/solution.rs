// As in the notebook.
// right
fn padding_share(lengths: &[usize], batch_size: usize) -> f64 {
    let longest = |batch: &[usize]| batch.iter().copied().max().unwrap_or(0);
    let batches = lengths.chunks(batch_size);
    let computed: usize = batches.map(|batch| batch.len() * longest(batch)).sum();
    let text: usize = lengths.iter().sum();
    (computed - text) as f64 / computed.max(1) as f64
}

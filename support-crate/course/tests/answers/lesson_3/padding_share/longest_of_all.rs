// All batches as long as the longest text.
// wrong: a batch is as long as its own longest text
fn padding_share(lengths: &[usize], batch_size: usize) -> f64 {
    let computed = lengths.len() * lengths.iter().copied().max().unwrap_or(0);
    let text: usize = lengths.iter().sum();
    (computed - text) as f64 / computed.max(1) as f64
}

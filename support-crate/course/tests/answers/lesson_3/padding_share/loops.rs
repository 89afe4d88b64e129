// Counts padding text by text.
// right
fn padding_share(lengths: &[usize], batch_size: usize) -> f64 {
    let mut padding = 0;
    let mut all = 0;
    let mut start = 0;
    while start < lengths.len() {
        let end = (start + batch_size).min(lengths.len());
        let mut longest = 0;
        for i in start..end {
            if lengths[i] > longest {
                longest = lengths[i];
            }
        }
        for i in start..end {
            padding += longest - lengths[i];
            all += longest;
        }
        start = end;
    }
    if all == 0 { 0.0 } else { padding as f64 / all as f64 }
}

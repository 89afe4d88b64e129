// The mean of the batches' shares, each weighted by its places.
// right
fn padding_share(lengths: &[usize], batch_size: usize) -> f64 {
    let mut shares = 0.0;
    let mut places = 0.0;
    for batch in lengths.chunks(batch_size) {
        let all = (batch.len() * batch.iter().max().unwrap()) as f64;
        if all > 0.0 {
            shares += all * (1.0 - batch.iter().sum::<usize>() as f64 / all);
            places += all;
        }
    }
    if places > 0.0 { shares / places } else { 0.0 }
}

// With loops.
// right
fn mean_of_means(losses: &[LossSum], batch_size: usize) -> f64 {
    let mut sum = 0.0;
    let mut count = 0;
    for batch in losses.chunks(batch_size) {
        let mut nll = 0.0;
        let mut tokens = 0;
        for loss in batch {
            nll += loss.nll;
            tokens += loss.tokens;
        }
        if tokens == 0 {
            continue;
        }
        sum += nll / tokens as f64;
        count += 1;
    }
    sum / count as f64
}

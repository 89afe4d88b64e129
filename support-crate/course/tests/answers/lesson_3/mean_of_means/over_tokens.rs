// The right average.
// wrong: this is the right average
fn mean_of_means(losses: &[LossSum], batch_size: usize) -> f64 {
    losses.iter().sum::<LossSum>().mean()
}

// As it comes.
// not yet
fn mean_with_interval(draws: &[LossSum]) -> Estimate {
    todo!()
}

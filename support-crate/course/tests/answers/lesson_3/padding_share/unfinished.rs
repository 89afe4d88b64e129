// As it comes.
// not yet
fn padding_share(lengths: &[usize], batch_size: usize) -> f64 {
    todo!()
}

// As it comes.
// not yet
fn loss_in_windows(loaded: &Loaded, ids: &[u32], window: usize, stride: usize) -> Result<LossSum> {
    todo!()
}

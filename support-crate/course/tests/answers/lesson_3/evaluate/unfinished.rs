// Nobody has written it yet.
// not yet
fn evaluate(loaded: &Loaded, texts: &[&str], batch_size: usize) -> Result<Evaluation> {
    todo!()
}

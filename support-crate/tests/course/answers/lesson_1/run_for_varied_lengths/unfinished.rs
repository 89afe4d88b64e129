// Nobody has written it yet.
// not yet
fn run_for_varied_lengths(
    clock: &dyn Clock,
    loaded: &Loaded,
    target_lengths: &[usize],
    max_new_tokens: usize,
    repeats: usize,
) -> Result<Vec<LengthRun>> {
    todo!()
}

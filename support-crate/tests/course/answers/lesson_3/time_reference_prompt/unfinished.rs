// Nobody has written it yet.
// not yet
fn time_reference_prompt(
    clock: &dyn Clock,
    loaded: &Loaded,
    prompt: &str,
    max_new_tokens: usize,
    repeats: usize,
) -> Result<Runs> {
    todo!()
}

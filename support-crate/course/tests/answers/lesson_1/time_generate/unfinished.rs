// Nobody has written it yet.
// not yet
fn time_generate(
    clock: &dyn Clock,
    loaded: &Loaded,
    prompt: &str,
    max_new_tokens: usize,
    use_cache: bool,
) -> Result<Metrics> {
    todo!()
}

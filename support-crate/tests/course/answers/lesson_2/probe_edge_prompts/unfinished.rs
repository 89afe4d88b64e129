// Nobody has written it yet.
// not yet
fn probe_edge_prompts(
    clock: &dyn Clock,
    loaded: &Loaded,
    max_new_tokens: usize,
    repeats: usize,
) -> Result<Vec<EdgeRun>> {
    todo!()
}

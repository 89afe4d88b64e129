// As it is handed out.
// not yet
fn probe_edge_prompts(
    clock: &dyn Clock,
    loaded: &Loaded,
    prompts: &[EdgePrompt],
    max_new_tokens: usize,
    repeats: usize,
) -> Result<Vec<EdgeRun>> {
    todo!()
}

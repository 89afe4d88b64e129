// Not started.
// not yet
fn edge_prompts(loaded: &Loaded, max_new_tokens: usize) -> Result<Vec<EdgePrompt>> {
    todo!()
}

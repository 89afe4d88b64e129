// Counts characters, four of which make a token here.
// wrong: less than half of it
fn edge_prompts(loaded: &Loaded, max_new_tokens: usize) -> Result<Vec<EdgePrompt>> {
    let room = loaded.model.info().context_len.saturating_sub(max_new_tokens);
    let long = "The quick brown fox jumps over the lazy dog. ".repeat(room * 3 / 4 / 45);
    let prompts = [
        ("very short", "A".to_owned()),
        ("very long", long),
        ("multi-line", "Shopping list:\n- milk\n- bread\n\n- a fox\n".to_owned()),
        ("repetitive", "ha ".repeat(30)),
    ];
    Ok(prompts.into_iter().map(|(name, text)| EdgePrompt { name: name.to_owned(), text }).collect())
}

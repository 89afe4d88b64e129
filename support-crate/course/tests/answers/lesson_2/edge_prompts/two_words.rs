// Takes two words for one.
// wrong: it should be one word
fn edge_prompts(loaded: &Loaded, max_new_tokens: usize) -> Result<Vec<EdgePrompt>> {
    let room = loaded.model.info().context_len.saturating_sub(max_new_tokens);
    let long = prompt_of_tokens(loaded, "The quick brown fox jumps over the lazy dog. ", room * 3 / 4)?;
    let prompts = [
        ("very short", "Hello there".to_owned()),
        ("very long", long.text),
        ("multi-line", "Shopping list:\n- milk\n- bread\n\n- a fox\n".to_owned()),
        ("repetitive", "ha ".repeat(30)),
    ];
    Ok(prompts.into_iter().map(|(name, text)| EdgePrompt { name: name.to_owned(), text }).collect())
}

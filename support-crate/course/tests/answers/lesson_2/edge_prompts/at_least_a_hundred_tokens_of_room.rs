// Takes the room for 100 tokens where there is less, so that no room at all is no error.
// wrong: there is no room for a prompt
fn edge_prompts(loaded: &Loaded, max_new_tokens: usize) -> Result<Vec<EdgePrompt>> {
    let room = loaded.model.info().context_len.saturating_sub(max_new_tokens).max(100);
    let long = prompt_of_tokens(loaded, "The quick brown fox jumps over the lazy dog. ", room * 2 / 3)?;
    let list = [
        ("very short", "Water".to_owned()),
        ("very long", long.text),
        ("multi-line", "Roses are red,\nviolets are blue.\n".to_owned()),
        ("repetitive", "la ".repeat(20)),
    ];
    Ok(list.map(|(name, text)| EdgePrompt { name: name.to_owned(), text }).into())
}

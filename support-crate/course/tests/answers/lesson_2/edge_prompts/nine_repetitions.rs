// Repeats the words nine times instead of ten or more.
// wrong: repeat them more often
fn edge_prompts(loaded: &Loaded, max_new_tokens: usize) -> Result<Vec<EdgePrompt>> {
    let room = loaded.model.info().context_len.saturating_sub(max_new_tokens);
    let long = prompt_of_tokens(loaded, "The sun is up. ", room * 3 / 4)?.text;
    let prompt = |name: &str, text: String| EdgePrompt { name: name.to_string(), text };
    Ok(vec![
        prompt("very short", "Hi".to_string()),
        prompt("very long", long),
        prompt("multi-line", "To do:\n1. eat\n2. sleep\n3. read\n".to_string()),
        prompt("repetitive", {
            let mut text = String::from("ding dong");
            for _ in 1..9 {
                text.push_str(" ding dong");
            }
            text
        }),
    ])
}

// A kind of its own besides the four, and the longest prompt that fits by counting.
// right
fn edge_prompts(loaded: &Loaded, max_new_tokens: usize) -> Result<Vec<EdgePrompt>> {
    let sentence = "The train was late again. ";
    let room = loaded.model.info().context_len.saturating_sub(max_new_tokens);
    if room == 0 {
        return Err(Error::input("the new tokens leave no room for a prompt"));
    }
    let mut long = String::new();
    loop {
        let longer = format!("{long}{sentence}");
        if loaded.tokenizer.encode(&longer)?.len() > room {
            break;
        }
        long = longer;
    }
    let mut prompts = Vec::new();
    for (name, text) in [
        ("repetitive", "again and again and again and again and again and again and again and again and again and again and"),
        ("very short", "Incomprehensible"),
        ("very long", long.as_str()),
        ("code", "fn main() {\n    let x = 1;\n}\n"),
        ("multi-line", "Roses are red,\nviolets are blue,\nthis poem is short,\nand so are you.\n"),
    ] {
        prompts.push(EdgePrompt { name: name.to_string(), text: text.to_string() });
    }
    Ok(prompts)
}

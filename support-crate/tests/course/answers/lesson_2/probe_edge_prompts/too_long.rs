// A long prompt that only some models have room for.
// wrong: take the length of the long one
fn probe_edge_prompts(
    clock: &dyn Clock,
    loaded: &Loaded,
    max_new_tokens: usize,
    repeats: usize,
) -> Result<Vec<EdgeRun>> {
    let context_len = loaded.model.info().context_len;
    let long = prompt_of_tokens(loaded, "The quick brown fox jumps over the lazy dog. ", 700)?;
    let prompts = [
        ("very short", "A".to_owned()),
        ("very long", long.text),
        ("multi-line", "Shopping list:\n- milk\n- bread\n\n- a fox\n".to_owned()),
        ("repetitive", "ha ".repeat(40)),
    ];
    let options = GenerateOptions { max_new_tokens, ..GenerateOptions::default() };
    let mut rows = Vec::new();
    for (name, prompt) in prompts {
        time_batch(clock, loaded, &[&prompt], &options)?;
        let runs = repeat(repeats, || time_batch(clock, loaded, &[&prompt], &options))?;
        let prompt_tokens = loaded.tokenizer.encode(&prompt)?.len();
        rows.push(EdgeRun { name: name.to_owned(), prompt, prompt_tokens, runs, note: String::new() });
    }
    let rates: Vec<f64> = rows.iter().map(|row| row.runs.throughput.median).collect();
    let usual = Statistics::of(&rates)?.median;
    for row in &mut rows {
        let Statistics { median, low, high, .. } = row.runs.throughput;
        let times = median / usual;
        if high < 0.8 * usual {
            row.note = format!("{times:.2} times the median throughput: prefill of {} tokens", row.prompt_tokens);
        } else if low > 1.25 * usual {
            row.note = format!("{times:.2} times the median throughput: next to no prefill");
        }
    }
    Ok(rows)
}

// Builds the prompts by hand, a sentence at a time, and times each with a loop and `Runs::of`.
// right
fn run_for_varied_lengths(clock: &dyn Clock, loaded: &Loaded, config: &SweepConfig) -> Result<Vec<LengthRun>> {
    let sentence = "My neighbour keeps three cats and a very old parrot. ";
    let mut rows = Vec::new();
    for &target in &config.prompt_lengths {
        let mut text = sentence.to_string();
        let mut prompt_tokens = loaded.tokenizer.encode(&text)?.len();
        while prompt_tokens < target {
            text.push_str(sentence);
            prompt_tokens = loaded.tokenizer.encode(&text)?.len();
        }
        let mut measured = Vec::new();
        for _ in 0..config.repeats {
            measured.push(time_generate(clock, loaded, &text, config.max_new_tokens, config.use_cache)?);
        }
        let runs = Runs::of(measured)?;
        rows.push(LengthRun { prompt_tokens, runs });
    }
    Ok(rows)
}

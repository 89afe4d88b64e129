// Builds the prompts by hand, and repeats in an outer loop.
// right
fn run_for_varied_lengths(clock: &dyn Clock, loaded: &Loaded, config: &SweepConfig) -> Result<Vec<LengthRun>> {
    let mut prompts = Vec::new();
    for &target in &config.prompt_lengths {
        let mut text = String::new();
        while loaded.tokenizer.encode(&text)?.len() < target {
            text += "One day Sam found a seed. ";
        }
        prompts.push(text);
    }
    let mut runs = vec![Vec::new(); prompts.len()];
    for _ in 0..config.repeats {
        for (prompt, runs) in prompts.iter().zip(&mut runs) {
            runs.push(time_generate(clock, loaded, prompt, config.max_new_tokens, config.use_cache)?);
        }
    }
    let row = |(prompt, runs): (&String, Vec<Metrics>)| {
        Ok(LengthRun { prompt_tokens: loaded.tokenizer.encode(prompt)?.len(), runs: Runs::of(runs)? })
    };
    prompts.iter().zip(runs).map(row).collect()
}

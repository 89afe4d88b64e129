// Builds the prompts by hand, and repeats in an outer loop.
// right
fn run_for_varied_lengths(
    clock: &dyn Clock,
    loaded: &Loaded,
    target_lengths: &[usize],
    max_new_tokens: usize,
    repeats: usize,
) -> Result<Vec<LengthRun>> {
    let mut prompts = Vec::new();
    for &target in target_lengths {
        let mut text = String::new();
        while loaded.tokenizer.encode(&text)?.len() < target {
            text += "One day Sam found a seed. ";
        }
        prompts.push(text);
    }
    let mut runs = vec![Vec::new(); prompts.len()];
    for _ in 0..repeats {
        for (prompt, runs) in prompts.iter().zip(&mut runs) {
            runs.push(time_generate(clock, loaded, prompt, max_new_tokens, true)?);
        }
    }
    let row = |(prompt, runs): (&String, Vec<Metrics>)| {
        Ok(LengthRun { prompt_tokens: loaded.tokenizer.encode(prompt)?.len(), runs: Runs::of(runs)? })
    };
    prompts.iter().zip(runs).map(row).collect()
}

// One loop over the rounds around all lengths, without first in every second round.
// right
fn run_with_and_without_cache(
    clock: &dyn Clock,
    loaded: &Loaded,
    config: &SweepConfig,
) -> Result<Vec<CacheRun>> {
    let base = "The quick brown fox jumps over the lazy dog. ";
    let prompts: Vec<Prompt> =
        config.prompt_lengths.iter().map(|&target| prompt_of_tokens(loaded, base, target)).collect::<Result<_>>()?;
    let mut with = vec![vec![]; prompts.len()];
    let mut without = vec![vec![]; prompts.len()];
    for round in 0..config.repeats {
        for (i, prompt) in prompts.iter().enumerate() {
            for turn in 0..2 {
                let cached = (round + turn) % 2 == 0;
                let run = time_generate(clock, loaded, &prompt.text, config.max_new_tokens, cached)?;
                if cached { with[i].push(run) } else { without[i].push(run) }
            }
        }
    }
    let mut rows = vec![];
    for ((prompt, with), without) in prompts.iter().zip(with).zip(without) {
        rows.push(CacheRun { prompt_tokens: prompt.tokens, with_cache: Runs::of(with)?, without_cache: Runs::of(without)? });
    }
    Ok(rows)
}

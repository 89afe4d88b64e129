// All runs with the cache first.
// wrong: then the next round
fn run_with_and_without_cache(
    clock: &dyn Clock,
    loaded: &Loaded,
    config: &SweepConfig,
) -> Result<Vec<CacheRun>> {
    let base = "The quick brown fox jumps over the lazy dog. ";
    let mut rows = Vec::new();
    for &target in &config.prompt_lengths {
        let prompt = prompt_of_tokens(loaded, base, target)?;
        let run = |use_cache: bool| time_generate(clock, loaded, &prompt.text, config.max_new_tokens, use_cache);
        let (mut with_cache, mut without_cache) = (Vec::new(), Vec::new());
        for _ in 0..config.repeats {
            with_cache.push(run(true)?);
        }
        for _ in 0..config.repeats {
            without_cache.push(run(false)?);
        }
        let (with_cache, without_cache) = (Runs::of(with_cache)?, Runs::of(without_cache)?);
        rows.push(CacheRun { prompt_tokens: prompt.tokens, with_cache, without_cache });
    }
    Ok(rows)
}

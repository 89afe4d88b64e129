// Has a helper for one setting (two warm-ups, then the runs) and calls it four times by hand.
// right
fn one_setting(
    clock: &dyn Clock,
    loaded: &Loaded,
    prompts: &[&str],
    repeats: usize,
    options: GenerateOptions,
) -> Result<AblationRun> {
    time_batch(clock, loaded, prompts, &options)?;
    time_batch(clock, loaded, prompts, &options)?;
    let runs = repeat(repeats, || time_batch(clock, loaded, prompts, &options))?;
    Ok(AblationRun { use_cache: options.use_cache, padding_side: options.padding_side, runs })
}

fn ablate_cache_and_padding(
    clock: &dyn Clock,
    loaded: &Loaded,
    prompts: &[&str],
    max_new_tokens: usize,
    repeats: usize,
) -> Result<Vec<AblationRun>> {
    let cached = GenerateOptions { max_new_tokens, use_cache: true, ..GenerateOptions::default() };
    let uncached = GenerateOptions { use_cache: false, ..cached.clone() };
    let right = |options: &GenerateOptions| GenerateOptions { padding_side: PaddingSide::Right, ..options.clone() };
    let cached_right = one_setting(clock, loaded, prompts, repeats, right(&cached))?;
    let uncached_right = one_setting(clock, loaded, prompts, repeats, right(&uncached))?;
    let cached_left = one_setting(clock, loaded, prompts, repeats, cached)?;
    let uncached_left = one_setting(clock, loaded, prompts, repeats, uncached)?;
    Ok(vec![cached_left, cached_right, uncached_left, uncached_right])
}

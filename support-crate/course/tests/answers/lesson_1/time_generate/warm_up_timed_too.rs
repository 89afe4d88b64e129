// One closure waits, runs and waits; it is called twice, and the first call's time is only printed.
// right
fn time_generate(
    clock: &dyn Clock,
    loaded: &Loaded,
    prompt: &str,
    max_new_tokens: usize,
    use_cache: bool,
) -> Result<Metrics> {
    let ids = [loaded.tokenizer.encode(prompt)?];
    let options = GenerateOptions { max_new_tokens, use_cache, stop_at_eos: false, ..GenerateOptions::default() };
    let one_run = || -> Result<(f64, usize)> {
        loaded.model.synchronize()?;
        let start = clock.now();
        let out = generate_tokens(&*loaded.model, &ids, &options, &mut |_, _| ())?;
        loaded.model.synchronize()?;
        Ok((clock.now() - start, out[0].tokens.len()))
    };
    let (cold, _) = one_run()?;
    let (warm, new_tokens) = one_run()?;
    if new_tokens != max_new_tokens {
        return Err(Error::system(format!("{new_tokens} new tokens instead of {max_new_tokens}")));
    }
    eprintln!("first run {cold:.3} s (dropped), second {warm:.3} s");
    let tokens_per_sec = new_tokens as f64 / warm;
    Ok(Metrics {
        total_latency_s: warm,
        tokens_generated: new_tokens,
        tokens_per_sec,
        avg_latency_per_token_ms: 1000.0 / tokens_per_sec,
    })
}

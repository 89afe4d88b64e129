// What the sweeps use of the exercises before them.
pub fn load_model_and_tokenizer(
    hub: &dyn ModelHub,
    candidates: &[&str],
    requested: &str,
    device: Device,
) -> Result<Loaded> {
    let resolved = resolve_dtype(requested, device)?;
    let options = LoadOptions { precision: resolved.dtype, device, ..LoadOptions::default() };
    let load_one = |id: &str| Loaded::new(hub.tokenizer(id)?, hub.model(id, &options)?, id, &resolved.label);
    let mut reasons = Vec::new();
    for &id in candidates {
        match load_one(id) {
            Ok(loaded) => return Ok(loaded),
            Err(error) => reasons.push(format!("{id}: {error}")),
        }
    }
    Err(Error::source(format!("none of the candidates could be loaded: {}", reasons.join("; "))))
}

pub fn time_generate(
    clock: &dyn Clock,
    loaded: &Loaded,
    prompt: &str,
    max_new_tokens: usize,
    use_cache: bool,
) -> Result<Metrics> {
    let prompts = [loaded.tokenizer.encode(prompt)?];
    let options = GenerateOptions { max_new_tokens, use_cache, stop_at_eos: false, ..GenerateOptions::default() };
    generate_tokens(&*loaded.model, &prompts, &options, &mut |_, _| ())?;
    loaded.model.synchronize()?;
    let start = clock.now();
    let generated = generate_tokens(&*loaded.model, &prompts, &options, &mut |_, _| ())?;
    loaded.model.synchronize()?;
    let total_latency_s = clock.now() - start;
    let tokens_generated = generated[0].tokens.len();
    Ok(Metrics {
        total_latency_s,
        tokens_generated,
        tokens_per_sec: tokens_generated as f64 / total_latency_s,
        avg_latency_per_token_ms: 1000.0 * total_latency_s / tokens_generated as f64,
    })
}

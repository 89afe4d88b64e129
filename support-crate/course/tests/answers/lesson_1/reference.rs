// What the sweeps use of the exercises before them.
pub fn load_model_and_tokenizer(
    hub: &dyn ModelHub,
    candidates: &[&str],
    requested: &str,
    device: Device,
) -> Result<Loaded> {
    let ResolvedDtype { dtype, label } = resolve_dtype(requested, device)?;
    let options = LoadOptions { precision: dtype, device, ..LoadOptions::default() };
    let load_one = |id: &str| {
        let (tokenizer, model) = (hub.tokenizer(id)?, hub.model(id, &options)?);
        Loaded::new(tokenizer, model, id, &label)
    };
    let mut reasons = Vec::new();
    for &id in candidates {
        match load_one(id) {
            Ok(loaded) => return Ok(loaded),
            Err(error) => reasons.push(format!("{id}: {error}")),
        }
    }
    Err(Error::source(format!("no candidate could be loaded: {}", reasons.join("; "))))
}

pub fn time_generate(
    clock: &dyn Clock,
    loaded: &Loaded,
    prompt: &str,
    max_new_tokens: usize,
    use_cache: bool,
) -> Result<Metrics> {
    let ids = loaded.tokenizer.encode(prompt)?;
    let default = GenerateOptions::default();
    let options = GenerateOptions { max_new_tokens, use_cache, stop_at_eos: false, ..default };
    loaded.generate_tokens(&ids, &options)?;
    loaded.model.synchronize()?;
    let start = clock.now();
    let generated = loaded.generate_tokens(&ids, &options)?;
    loaded.model.synchronize()?;
    let total_latency_s = clock.now() - start;
    let tokens_generated = generated.tokens.len();
    Ok(Metrics {
        total_latency_s,
        tokens_generated,
        tokens_per_sec: tokens_generated as f64 / total_latency_s,
        avg_latency_per_token_ms: 1000.0 * total_latency_s / tokens_generated as f64,
    })
}

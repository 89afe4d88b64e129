// Generates by hand, one forward pass after the other.
// right
fn time_generate(
    clock: &dyn Clock,
    loaded: &Loaded,
    prompt: &str,
    max_new_tokens: usize,
    use_cache: bool,
) -> Result<Metrics> {
    let ids = loaded.tokenizer.encode(prompt)?;
    let run = || -> Result<Vec<u32>> {
        let mut cache = if use_cache { Some(loaded.model.new_cache(1, ids.len() + max_new_tokens)?) } else { None };
        let mut sequence = ids.clone();
        let mut read = 0;
        while sequence.len() < ids.len() + max_new_tokens {
            let new = quantlab::model::TokenBatch::single(if use_cache { &sequence[read..] } else { &sequence })?;
            read = sequence.len();
            let last = quantlab::model::LogitPositions::Last;
            let logits = loaded.model.forward(&new, cache.as_mut(), last)?;
            let row = logits.row(0, 0);
            let best = (0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap_or(0);
            sequence.push(best as u32);
        }
        Ok(sequence.split_off(ids.len()))
    };
    run()?;
    loaded.model.synchronize()?;
    let start = clock.now();
    let tokens_generated = run()?.len();
    loaded.model.synchronize()?;
    let total_latency_s = clock.now() - start;
    let avg_latency_per_token_ms = total_latency_s / tokens_generated as f64 * 1e3;
    Ok(Metrics { total_latency_s, tokens_generated, tokens_per_sec: 1e3 / avg_latency_per_token_ms, avg_latency_per_token_ms })
}

// As a perplexity.
// wrong: a divergence is in nats; no `exp` here
fn quality_of(changes: &[TextChange], noise: &[TextChange]) -> Quality {
    let losses: Vec<LossSum> = changes.iter().map(TextChange::losses).collect();
    let divergences: Vec<LossSum> = changes.iter().map(TextChange::divergences).collect();
    let above = |(change, noise): (&TextChange, &TextChange)| LossSum {
        nll: change.divergence - noise.divergence,
        tokens: change.tokens,
    };
    let above_noise: Vec<LossSum> = changes.iter().zip(noise).map(above).collect();
    let same_top: usize = changes.iter().map(|change| change.same_top).sum();
    let tokens: usize = changes.iter().map(|change| change.tokens).sum();
    Quality {
        perplexity_ratio: perplexity_of(mean_with_interval(&losses)),
        divergence: perplexity_of(mean_with_interval(&divergences)),
        above_noise: mean_with_interval(&above_noise),
        same_top: same_top as f64 / tokens as f64,
        tokens: tokens,
    }
}

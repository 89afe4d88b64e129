// One closure for the three means.
// right
fn quality_of(changes: &[TextChange], noise: &[TextChange]) -> Quality {
    let mean = |nll: &dyn Fn(usize) -> f64| {
        let draws: Vec<LossSum> =
            (0..changes.len()).map(|i| LossSum { nll: nll(i), tokens: changes[i].tokens }).collect();
        mean_with_interval(&draws)
    };
    let tokens = changes.iter().map(|change| change.tokens).sum();
    let same = changes.iter().fold(0, |same, change| same + change.same_top);
    Quality {
        perplexity_ratio: perplexity_of(mean(&|i| changes[i].loss_change)),
        divergence: mean(&|i| changes[i].divergence),
        above_noise: mean(&|i| changes[i].divergence - noise[i].divergence),
        same_top: 1.0 - (tokens - same) as f64 / tokens as f64,
        tokens,
    }
}

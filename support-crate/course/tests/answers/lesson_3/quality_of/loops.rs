// With a loop, and exp written out.
// right
fn quality_of(changes: &[TextChange], noise: &[TextChange]) -> Quality {
    let mut losses = Vec::new();
    let mut divergences = Vec::new();
    let mut above = Vec::new();
    let mut same = 0;
    let mut tokens = 0;
    for i in 0..changes.len() {
        let n = changes[i].tokens;
        losses.push(LossSum { nll: changes[i].loss_change, tokens: n });
        divergences.push(LossSum { nll: changes[i].divergence, tokens: n });
        above.push(LossSum { nll: changes[i].divergence - noise[i].divergence, tokens: n });
        same += changes[i].same_top;
        tokens += n;
    }
    let loss = mean_with_interval(&losses);
    Quality {
        perplexity_ratio: Estimate::new(loss.value.exp(), loss.low.exp(), loss.high.exp()),
        divergence: mean_with_interval(&divergences),
        above_noise: mean_with_interval(&above),
        same_top: same as f64 / tokens as f64,
        tokens,
    }
}

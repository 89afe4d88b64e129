// Top-p chooses before the temperature.
// wrong: the temperature comes first
fn probabilities(logits: &[f32], sampling: &Sampling) -> Vec<f64> {
    let Sampling { temperature, top_k, top_p } = *sampling;
    let mut order: Vec<usize> = (0..logits.len()).collect();
    // A stable sort: of equal logits, the first stays first.
    order.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]));
    let mut p = vec![0.0; logits.len()];
    if temperature == 0.0 {
        p[order[0]] = 1.0;
        return p;
    }
    let largest = logits[order[0]];
    let least = logits[order[top_k.unwrap_or(logits.len()).min(logits.len()) - 1]];
    for (p, logit) in p.iter_mut().zip(logits).filter(|(_, logit)| **logit >= least) {
        *p = (f64::from(logit - largest) / temperature).exp();
    }
    let hot: Vec<f64> = p.iter().map(|p| if *p > 0.0 { p.powf(temperature) } else { 0.0 }).collect();
    let all: f64 = hot.iter().sum();
    let mut hot_kept = 0.0;
    let mut kept = 0.0;
    for id in order {
        if hot_kept >= top_p * all {
            p[id] = 0.0;
        }
        hot_kept += hot[id];
        kept += p[id];
    }
    p.iter().map(|p| p / kept).collect()
}

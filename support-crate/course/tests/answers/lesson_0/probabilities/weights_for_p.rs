// Top-p adds up weights that are not divided by their sum.
// wrong: is what you compare with `top_p` a sum of probabilities
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
    let mut kept = 0.0;
    for id in order {
        if top_p < 1.0 && kept >= top_p {
            p[id] = 0.0;
        }
        kept += p[id];
    }
    p.iter().map(|p| p / kept).collect()
}

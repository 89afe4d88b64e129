// Divides by a temperature of 0.
// wrong: nothing can be divided by a temperature of 0
fn probabilities(logits: &[f32], sampling: &Sampling) -> Vec<f64> {
    let Sampling { temperature, top_k, top_p } = *sampling;
    let mut order: Vec<usize> = (0..logits.len()).collect();
    // A stable sort: of equal logits, the first stays first.
    order.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]));
    let mut p = vec![0.0; logits.len()];
    let largest = logits[order[0]];
    let least = logits[order[top_k.unwrap_or(logits.len()).min(logits.len()) - 1]];
    for (p, logit) in p.iter_mut().zip(logits).filter(|(_, logit)| **logit >= least) {
        *p = (f64::from(logit - largest) / temperature).exp();
    }
    let all: f64 = p.iter().sum();
    let mut kept = 0.0;
    for id in order {
        if top_p < 1.0 && kept >= top_p * all {
            p[id] = 0.0;
        }
        kept += p[id];
    }
    p.iter().map(|p| p / kept).collect()
}

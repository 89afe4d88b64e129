// Step by step, each a vector of its own.
// right
fn probabilities(logits: &[f32], sampling: &Sampling) -> Vec<f64> {
    if sampling.temperature == 0.0 {
        let mut best = 0;
        for i in 1..logits.len() {
            if logits[i] > logits[best] {
                best = i;
            }
        }
        return (0..logits.len()).map(|i| if i == best { 1.0 } else { 0.0 }).collect();
    }
    let mut scores: Vec<f64> = logits.iter().map(|&z| z as f64 / sampling.temperature).collect();
    if let Some(k) = sampling.top_k {
        let mut sorted = scores.clone();
        sorted.sort_by(|a, b| b.partial_cmp(a).unwrap());
        if k < sorted.len() {
            for s in &mut scores {
                if *s < sorted[k - 1] {
                    *s = f64::NEG_INFINITY;
                }
            }
        }
    }
    let max = scores.iter().cloned().fold(f64::MIN, f64::max);
    let mut p: Vec<f64> = scores.iter().map(|s| (s - max).exp()).collect();
    let total: f64 = p.iter().sum();
    for p in &mut p {
        *p /= total;
    }
    if sampling.top_p < 1.0 {
        let mut by: Vec<(usize, f64)> = p.iter().cloned().enumerate().collect();
        by.sort_by(|a, b| b.1.partial_cmp(&a.1).unwrap());
        let mut sum = 0.0;
        for (id, q) in by {
            if sum >= sampling.top_p {
                p[id] = 0.0;
            }
            sum += q;
        }
        let total: f64 = p.iter().sum();
        p = p.iter().map(|p| p / total).collect();
    }
    p
}

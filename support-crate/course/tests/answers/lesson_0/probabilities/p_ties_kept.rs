// Keeps all that equal the last token of top-p.
// wrong: no more than reach the sum
fn probabilities(logits: &[f32], sampling: &Sampling) -> Vec<f64> {
    let n = logits.len();
    let t = sampling.temperature;
    let mut p = vec![0.0; n];
    if t == 0.0 {
        let mut best = 0;
        for i in 0..n {
            if logits[i] > logits[best] {
                best = i;
            }
        }
        p[best] = 1.0;
        return p;
    }
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&a, &b| logits[b].partial_cmp(&logits[a]).unwrap());
    if let Some(k) = sampling.top_k {
        let k = k.min(n);
        let last = logits[order[k - 1]];
        order.retain(|&i| logits[i] >= last);
    }
    let max = f64::from(logits[order[0]]);
    for &i in &order {
        p[i] = ((f64::from(logits[i]) - max) / t).exp();
    }
    let total: f64 = p.iter().sum();
    let mut sum = 0.0;
    let mut kept = 0;
    for &i in &order {
        sum += p[i] / total;
        kept += 1;
        if sum >= sampling.top_p {
            break;
        }
    }
    let bound = p[order[kept - 1]];
    for &i in &order[kept..] {
        if p[i] < bound {
            p[i] = 0.0;
        }
    }
    let total: f64 = p.iter().sum();
    for p in &mut p {
        *p /= total;
    }
    p
}

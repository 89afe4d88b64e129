// By logarithms; of equals, the last one first.
// right
fn probabilities(logits: &[f32], sampling: &Sampling) -> Vec<f64> {
    let t = sampling.temperature;
    let mut left: Vec<(f64, usize)> =
        logits.iter().enumerate().map(|(i, l)| (f64::from(*l), i)).collect();
    if t == 0.0 {
        let best = left.iter().rev().max_by(|a, b| a.0.total_cmp(&b.0)).unwrap().1;
        return (0..logits.len()).map(|i| f64::from(u8::from(i == best))).collect();
    }
    fn lse(all: &[(f64, usize)]) -> f64 {
        let max = all.iter().fold(f64::NEG_INFINITY, |m, l| m.max(l.0));
        max + all.iter().map(|l| (l.0 - max).exp()).sum::<f64>().ln()
    }
    left.iter_mut().for_each(|l| l.0 /= t);
    if let Some(k) = sampling.top_k {
        left.sort_unstable_by(|a, b| b.partial_cmp(a).unwrap());
        let kth = left[k.min(left.len()) - 1].0;
        left.retain(|l| l.0 >= kth);
    }
    let all = lse(&left);
    let mut kept = vec![];
    let mut sum = 0.0;
    while !left.is_empty() && sum < sampling.top_p {
        let at = (0..left.len()).max_by(|a, b| left[*a].0.total_cmp(&left[*b].0)).unwrap();
        let token = left.remove(at);
        sum += (token.0 - all).exp();
        kept.push(token);
    }
    let all = lse(&kept);
    let mut out = vec![0.0; logits.len()];
    kept.iter().for_each(|(l, i)| out[*i] = (l - all).exp());
    out
}

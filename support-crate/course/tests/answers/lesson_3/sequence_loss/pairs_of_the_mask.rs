// Makes a list of losses from pairs of neighbours in the mask, with its own log-sum-exp in f64.
// right
fn sequence_loss(logits: &Logits, row: usize, ids: &[u32], mask: &[bool]) -> LossSum {
    fn surprise(logits: &[f32], id: u32) -> f64 {
        let m = f64::from(logits.iter().copied().fold(f32::NEG_INFINITY, f32::max));
        let sum: f64 = logits.iter().map(|&z| (f64::from(z) - m).exp()).sum();
        sum.ln() + m - f64::from(logits[id as usize])
    }
    let losses: Vec<f64> = mask
        .iter()
        .zip(mask.iter().skip(1))
        .enumerate()
        .filter(|(_, (before, this))| **before && **this)
        .map(|(before, _)| surprise(logits.row(row, before), ids[before + 1]))
        .collect();
    LossSum { nll: losses.iter().sum(), tokens: losses.len() }
}

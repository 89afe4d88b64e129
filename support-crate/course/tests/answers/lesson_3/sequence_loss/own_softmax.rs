// Computes the softmax anew, and lets it overflow.
// wrong: Your `log_softmax_at` can handle it
fn sequence_loss(logits: &Logits, row: usize, ids: &[u32], mask: &[bool]) -> LossSum {
    let mut sum = LossSum::default();
    for t in 1..ids.len() {
        let z = logits.row(row, t - 1);
        let total: f64 = z.iter().map(|&z| f64::from(z).exp()).sum();
        if mask[t - 1] && mask[t] {
            sum.nll -= (f64::from(z[ids[t] as usize]) - total.ln());
            sum.tokens += 1;
        }
    }
    sum
}

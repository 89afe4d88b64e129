// What later exercises use of those before them.
pub fn log_softmax_at(logits: &[f32], id: u32) -> f64 {
    let largest = f64::from(logits.iter().copied().fold(f32::NEG_INFINITY, f32::max));
    let sum: f64 = logits.iter().map(|&logit| (f64::from(logit) - largest).exp()).sum();
    f64::from(logits[id as usize]) - largest - sum.ln()
}

pub fn pad_batch(sequences: &[Vec<u32>]) -> PaddedBatch {
    let longest = sequences.iter().map(Vec::len).max().unwrap_or(0);
    let mut padded = PaddedBatch::default();
    for sequence in sequences {
        let mut ids = sequence.clone();
        ids.resize(longest, 0);
        padded.ids.push(ids);
        padded.mask.push((0..longest).map(|t| t < sequence.len()).collect());
    }
    padded
}

pub fn sequence_loss(logits: &Logits, row: usize, ids: &[u32], mask: &[bool]) -> LossSum {
    let mut sum = LossSum::default();
    for t in 1..ids.len() {
        if mask[t - 1] && mask[t] {
            sum.nll -= log_softmax_at(logits.row(row, t - 1), ids[t]);
            sum.tokens += 1;
        }
    }
    sum
}

pub fn kl_divergence(base: &[f32], other: &[f32]) -> f64 {
    let from_logit = |logits: &[f32]| log_softmax_at(logits, 0) - f64::from(logits[0]);
    let (base_shift, other_shift) = (from_logit(base), from_logit(other));
    let of_token = |(&z, &w): (&f32, &f32)| {
        let (ln_p, ln_q) = (f64::from(z) + base_shift, f64::from(w) + other_shift);
        ln_p.exp() * (ln_p - ln_q)
    };
    base.iter().zip(other).map(of_token).sum()
}

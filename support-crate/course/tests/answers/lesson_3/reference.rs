// What later exercises use of those before them.
pub fn log_softmax_at(logits: &[f32], id: u32) -> f64 {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = logits.iter().map(|&logit| f64::from(logit - largest).exp()).sum();
    f64::from(logits[id as usize] - largest) - sum.ln()
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

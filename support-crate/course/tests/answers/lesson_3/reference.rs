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

pub fn mean_with_interval(draws: &[LossSum]) -> Estimate {
    let (all, k) = (draws.iter().sum::<LossSum>(), draws.len() as f64);
    let deviation = |draw: &LossSum| draw.nll - all.mean() * draw.tokens as f64;
    let squares: f64 = draws.iter().map(|draw| deviation(draw).powi(2)).sum();
    let error = (squares * k / (k - 1.0)).sqrt() / all.tokens as f64;
    Estimate::plus_minus(all.mean(), student_t_95(draws.len() - 1) * error)
}

pub fn windows(tokens: usize, window: usize, stride: usize) -> Vec<Window> {
    let mut windows = Vec::new();
    let (mut start, mut scored) = (0, 1);
    while scored < tokens {
        let end = tokens.min(start + window);
        windows.push(Window { read: start..end, scored: scored..end });
        scored = end;
        start += stride;
    }
    windows
}

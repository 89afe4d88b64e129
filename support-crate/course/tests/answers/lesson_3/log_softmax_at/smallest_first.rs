// Sorts the logits in f64, so that the largest is at the end and the smallest terms are added first.
// right
fn log_softmax_at(logits: &[f32], id: u32) -> f64 {
    let mut sorted: Vec<f64> = logits.iter().map(|&z| z as f64).collect();
    sorted.sort_by(|a, b| a.total_cmp(b));
    let m = sorted[sorted.len() - 1];
    let mut sum = 0.0;
    for z in &sorted {
        sum += f64::exp(z - m);
    }
    let log_of_all = m + sum.ln();
    // ln(e^z / all) = z - ln(all)
    f64::from(logits[id as usize]) - log_of_all
}

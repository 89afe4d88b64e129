// Takes the logit for a log-probability.
// wrong: this is the logit
fn log_softmax_at(logits: &[f32], id: u32) -> f64 {
    f64::from(logits[id as usize])
}

// No step.
// wrong: the step is stored too
fn bits_per_weight(bits: u32, group: usize) -> f64 {
    f64::from(bits) + f64::from(bits) / group as f64
}

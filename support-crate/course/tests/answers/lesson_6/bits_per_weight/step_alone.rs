// No zero point.
// wrong: the zero point is stored too
fn bits_per_weight(bits: u32, group: usize) -> f64 {
    f64::from(bits) + f64::from(16) / group as f64
}

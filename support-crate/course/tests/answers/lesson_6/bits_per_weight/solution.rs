// The notebook's own.
// right
fn bits_per_weight(bits: u32, group: usize) -> f64 {
    f64::from(bits) + f64::from(16 + bits) / group as f64
}

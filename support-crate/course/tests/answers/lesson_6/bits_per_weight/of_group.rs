// Bits of the group.
// wrong: divide by its weights
fn bits_per_weight(bits: u32, group: usize) -> f64 {
    f64::from(bits) * group as f64 + f64::from(16 + bits)
}

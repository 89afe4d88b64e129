// Both in 16 bits.
// wrong: as many as any code
fn bits_per_weight(bits: u32, group: usize) -> f64 {
    f64::from(bits) + f64::from(32) / group as f64
}

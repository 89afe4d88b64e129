// Scales for nothing.
// wrong: scales take room
fn bits_per_weight(bits: u32, group: usize) -> f64 {
    f64::from(bits)
}

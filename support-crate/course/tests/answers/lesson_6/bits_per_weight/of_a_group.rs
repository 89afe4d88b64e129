// Of a whole group, divided.
// right
fn bits_per_weight(bits: u32, group: usize) -> f64 {
    let total = group as u32 * bits + 16 + bits;
    total as f64 / group as f64
}

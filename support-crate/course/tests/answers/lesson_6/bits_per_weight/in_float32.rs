// A step of 32 bits.
// wrong: float16 number
fn bits_per_weight(bits: u32, group: usize) -> f64 {
    f64::from(bits) + f64::from(32 + bits) / group as f64
}

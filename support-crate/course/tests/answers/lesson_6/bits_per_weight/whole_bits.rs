// The grid's bits are divided as whole numbers.
// wrong: divide as `f64`
fn bits_per_weight(bits: u32, group: usize) -> f64 {
    f64::from(bits) + ((16 + bits) / group as u32) as f64
}

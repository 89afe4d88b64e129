// Nobody has written it yet.
// not yet
fn bits_per_weight(bits: u32, group: usize) -> f64 {
    todo!()
}

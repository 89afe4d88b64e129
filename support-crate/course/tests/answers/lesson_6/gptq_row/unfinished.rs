// Nobody has written it yet.
// not yet
fn gptq_row(row: &[f32], grids: &[Grid], factor: &[f64]) -> Vec<u8> {
    todo!()
}

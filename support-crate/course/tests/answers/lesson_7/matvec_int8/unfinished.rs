// Nobody has written it yet.
// not yet
fn matvec_int8(values: &[i8], scales: &[f32], x: &[f32], y: &mut [f32]) {
    todo!()
}

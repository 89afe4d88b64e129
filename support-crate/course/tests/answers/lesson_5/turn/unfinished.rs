// Not begun.
// not yet
fn turn(rows: &mut [f32], signs: &[f32]) {
    todo!()
}

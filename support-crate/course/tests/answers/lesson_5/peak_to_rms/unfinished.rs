// Not begun.
// not yet
fn peak_to_rms(x: &[f32]) -> f64 {
    todo!()
}

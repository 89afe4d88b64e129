// Nobody has written it yet.
// not yet
fn dot_in_lanes(w: &[f32], x: &[f32]) -> f32 {
    todo!()
}

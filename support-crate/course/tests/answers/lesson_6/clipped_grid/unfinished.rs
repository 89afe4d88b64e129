// Nobody has written it yet.
// not yet
fn clipped_grid(weights: &[f32], bits: u32, parts: &[f32]) -> Grid {
    todo!()
}

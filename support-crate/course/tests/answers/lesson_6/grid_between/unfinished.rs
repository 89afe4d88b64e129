// Nobody has written it yet.
// not yet
fn grid_between(low: f32, high: f32, bits: u32) -> Grid {
    todo!()
}

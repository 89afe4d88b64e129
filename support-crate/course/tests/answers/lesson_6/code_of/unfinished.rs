// Nobody has written it yet.
// not yet
fn code_of(weight: f32, grid: &Grid) -> u8 {
    todo!()
}

// Tries all codes.
// right
fn code_of(weight: f32, grid: &Grid) -> u8 {
    let off = |code: u8| (grid.number(code) - weight).abs();
    (0..=grid.last as u8).min_by(|a, b| off(*a).partial_cmp(&off(*b)).unwrap()).unwrap()
}

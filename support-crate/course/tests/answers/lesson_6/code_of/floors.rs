// Rounds down.
// wrong: not down
fn code_of(weight: f32, grid: &Grid) -> u8 {
    let steps = (weight / grid.step).floor();
    (steps + grid.zero).clamp(0.0, grid.last) as u8
}

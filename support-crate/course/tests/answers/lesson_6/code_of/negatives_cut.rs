// Adds a half and cuts, which rounds negative numbers up.
// wrong: rounds negative numbers up
fn code_of(weight: f32, grid: &Grid) -> u8 {
    let steps = (weight / grid.step + 0.5) as i64;
    (steps + grid.zero as i64).clamp(0, grid.last as i64) as u8
}

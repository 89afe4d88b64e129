// Relies on the cast, which ends at 255.
// wrong: no code is above
fn code_of(weight: f32, grid: &Grid) -> u8 {
    let steps = (weight / grid.step).round_ties_even();
    (steps + grid.zero) as u8
}

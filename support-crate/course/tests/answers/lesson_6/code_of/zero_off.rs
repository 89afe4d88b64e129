// Subtracts the zero point.
// wrong: is added, not subtracted
fn code_of(weight: f32, grid: &Grid) -> u8 {
    let steps = (weight / grid.step).round_ties_even();
    (steps - grid.zero).clamp(0.0, grid.last) as u8
}

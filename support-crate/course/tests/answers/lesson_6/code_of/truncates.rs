// A cast instead of rounding.
// wrong: round to the nearest code
fn code_of(weight: f32, grid: &Grid) -> u8 {
    let steps = (weight / grid.step).round_ties_even();
    (weight / grid.step + grid.zero).clamp(0.0, grid.last) as u8
}

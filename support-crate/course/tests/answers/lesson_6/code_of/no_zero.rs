// Forgets the zero point.
// wrong: add `grid.zero`
fn code_of(weight: f32, grid: &Grid) -> u8 {
    let steps = (weight / grid.step).round_ties_even();
    (steps).clamp(0.0, grid.last) as u8
}

// An integer that cannot be negative.
// wrong: panicked
fn code_of(weight: f32, grid: &Grid) -> u8 {
    let steps = (weight / grid.step).round_ties_even();
    u8::try_from((steps + grid.zero) as i32).unwrap()
}

// By way of an integer that wraps.
// wrong: codes lie between 0
fn code_of(weight: f32, grid: &Grid) -> u8 {
    let steps = (weight / grid.step).round_ties_even();
    (steps + grid.zero) as i32 as u8
}

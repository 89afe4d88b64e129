// More than 127 steps from 0 do not fit.
// wrong: code_of(
fn code_of(weight: f32, grid: &Grid) -> u8 {
    let steps = (weight / grid.step).round_ties_even() as i8;
    (i32::from(steps) + grid.zero as i32).clamp(0, grid.last as i32) as u8
}

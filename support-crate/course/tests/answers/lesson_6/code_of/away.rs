// Ties away from 0, held by hand.
// right
fn code_of(weight: f32, grid: &Grid) -> u8 {
    let code = (weight / grid.step + grid.zero).round();
    if code < 0.0 {
        0
    } else if code > grid.last {
        grid.last as u8
    } else {
        code as u8
    }
}

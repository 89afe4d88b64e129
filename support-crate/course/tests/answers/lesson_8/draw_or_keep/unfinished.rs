// Not begun.
// not yet
fn draw_or_keep(guess: u32, p: &[f64], q: &[f64], accept: f64, draw: f64) -> u32 {
    todo!()
}

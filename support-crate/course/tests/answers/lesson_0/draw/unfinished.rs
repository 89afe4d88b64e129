// Nobody has written it yet.
// not yet
fn draw(probabilities: &[f64], uniform: f64) -> u32 {
    todo!()
}

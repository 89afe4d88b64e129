// With a running sum in an iterator.
// right
fn draw(probabilities: &[f64], uniform: f64) -> u32 {
    let mut sum = 0.0;
    let found = probabilities.iter().position(|p| {
        sum += *p;
        uniform < sum
    });
    found.or(probabilities.iter().rposition(|p| *p != 0.0)).unwrap() as u32
}

// Compares before adding.
// wrong: own probability in
fn draw(probabilities: &[f64], uniform: f64) -> u32 {
    let mut sum = 0.0;
    for (id, p) in probabilities.iter().enumerate() {
        if sum > uniform {
            return id as u32;
        }
        sum += p;
    }
    // Rounding left the sum a hair below `uniform`.
    probabilities.iter().rposition(|p| *p > 0.0).unwrap_or(0) as u32
}

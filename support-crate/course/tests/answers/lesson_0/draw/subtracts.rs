// Takes each probability off the number, and remembers the last one that is not 0.
// right
fn draw(probabilities: &[f64], uniform: f64) -> u32 {
    let (mut rest, mut last) = (uniform, 0);
    for (id, &p) in probabilities.iter().enumerate() {
        if p > 0.0 {
            last = id;
            if rest < p {
                break;
            }
            rest -= p;
        }
    }
    last as u32
}

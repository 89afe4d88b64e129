// The place among the tokens that have a probability.
// wrong: the id counts all
fn draw(probabilities: &[f64], uniform: f64) -> u32 {
    let mut sum = 0.0;
    let mut at = 0;
    for p in probabilities.iter().filter(|p| **p > 0.0) {
        sum += p;
        if uniform < sum {
            return at;
        }
        at += 1;
    }
    at - 1
}

// Passes over unlikely tokens.
// wrong: 100000 in all
fn draw(probabilities: &[f64], uniform: f64) -> u32 {
    let mut sum = 0.0;
    let mut last = 0;
    for (id, p) in probabilities.iter().enumerate() {
        if *p < 1e-6 {
            continue;
        }
        sum += p;
        if uniform < sum {
            return id as u32;
        }
        last = id;
    }
    last as u32
}

// From the last id on.
// wrong: in the order of the ids, from 0 on
fn draw(probabilities: &[f64], uniform: f64) -> u32 {
    let mut sum = 0.0;
    for (id, p) in probabilities.iter().enumerate().rev() {
        sum += p;
        if uniform < sum {
            return id as u32;
        }
    }
    0
}

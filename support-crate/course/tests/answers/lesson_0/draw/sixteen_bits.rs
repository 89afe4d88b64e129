// Ids of 16 bits.
// wrong: expected 70001
fn draw(probabilities: &[f64], uniform: f64) -> u32 {
    let mut left = uniform;
    let mut last = 0;
    for (id, &p) in probabilities.iter().enumerate() {
        if p == 0.0 {
            continue;
        }
        if left < p {
            return id as u16 as u32;
        }
        left -= p;
        last = id;
    }
    last as u16 as u32
}

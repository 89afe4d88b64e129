// Never draws the last token of the vocabulary.
// wrong: draw([
fn draw(probabilities: &[f64], uniform: f64) -> u32 {
    let mut sum = 0.0;
    let mut last = 0;
    for (id, p) in probabilities[..probabilities.len() - 1].iter().enumerate() {
        if *p == 0.0 {
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

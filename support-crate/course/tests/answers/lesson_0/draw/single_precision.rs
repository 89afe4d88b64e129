// Adds in float32.
// wrong: too narrow for float32
fn draw(probabilities: &[f64], uniform: f64) -> u32 {
    let mut sum = 0.0f32;
    let mut last = 0;
    for (id, &p) in probabilities.iter().enumerate() {
        if p == 0.0 {
            continue;
        }
        sum += p as f32;
        if (uniform as f32) < sum {
            return id as u32;
        }
        last = id;
    }
    last as u32
}

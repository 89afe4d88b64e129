// The likeliest token.
// wrong: that is the likeliest token
fn draw(probabilities: &[f64], uniform: f64) -> u32 {
    let _ = uniform;
    (0..probabilities.len()).max_by(|&a, &b| probabilities[a].total_cmp(&probabilities[b])).unwrap() as u32
}

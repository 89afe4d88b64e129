// Every possible token is as likely.
// wrong: as wide as its probability
fn draw(probabilities: &[f64], uniform: f64) -> u32 {
    let ids: Vec<usize> = (0..probabilities.len()).filter(|i| probabilities[*i] > 0.0).collect();
    ids[(uniform * ids.len() as f64) as usize] as u32
}

// Lays the probabilities out by rank.
// wrong: not the likeliest first
fn draw(probabilities: &[f64], uniform: f64) -> u32 {
    let mut order: Vec<usize> = (0..probabilities.len()).collect();
    order.sort_by(|&a, &b| probabilities[b].total_cmp(&probabilities[a]));
    let mut sum = 0.0;
    for id in order {
        sum += probabilities[id];
        if sum > uniform {
            return id as u32;
        }
    }
    0
}

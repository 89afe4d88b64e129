// Divides by a step of 0.
// wrong: has a step of 0
fn round_cache(numbers: &[f32], width: usize, along: Along, bits: u32) -> Vec<f32> {
    let (tokens, steps) = (numbers.len() / width, (1 << bits) as f32 - 1.0);
    let (down, across) = if along == Along::Tokens { (GROUP, 1) } else { (1, GROUP) };
    let mut out = numbers.to_vec();
    for t in (0..tokens).step_by(down) {
        for c in (0..width).step_by(across) {
            let rows = t..tokens.min(t + down);
            let columns = c..width.min(c + across);
            let places = rows.flat_map(|t| columns.clone().map(move |c| t * width + c));
            let group: Vec<f32> = places.clone().map(|at| numbers[at]).collect();
            let low = group.iter().copied().fold(f32::INFINITY, f32::min);
            let step = (group.iter().copied().fold(low, f32::max) - low) / steps;
            if step >= 0.0 {
                places.for_each(|at| out[at] = low + ((out[at] - low) / step).round() * step);
            }
        }
    }
    out
}

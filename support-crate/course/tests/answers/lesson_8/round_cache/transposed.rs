// Turns the numbers, rounds rows, turns them back.
// right
fn round_cache(numbers: &[f32], width: usize, along: Along, bits: u32) -> Vec<f32> {
    fn rows(x: &[f32], width: usize, bits: u32) -> Vec<f32> {
        let mut out = Vec::new();
        for row in x.chunks(width) {
            for group in row.chunks(GROUP) {
                let (mut low, mut high) = (group[0], group[0]);
                for &x in group { low = low.min(x); high = high.max(x); }
                let step = (high - low) / (2u32.pow(bits) - 1) as f32;
                out.extend(group.iter().map(|x| if step == 0.0 { *x } else { low + step * ((x - low) / step).round() }));
            }
        }
        out
    }
    if along == Along::Channels { return rows(numbers, width, bits); }
    let tokens = numbers.len() / width;
    if tokens == 0 { return vec![]; }
    let turned: Vec<f32> = (0..width).flat_map(|c| (0..tokens).map(move |t| numbers[t * width + c])).collect();
    let done = rows(&turned, tokens, bits);
    (0..tokens).flat_map(|t| (0..width).map(|c| done[c * tokens + t]).collect::<Vec<_>>()).collect()
}

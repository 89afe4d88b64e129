// Finds, for each number, its group; and the nearest of all grid points.
// right
fn round_cache(numbers: &[f32], width: usize, along: Along, bits: u32) -> Vec<f32> {
    let tokens = numbers.len() / width;
    let at = |t: usize, c: usize| numbers[t * width + c];
    let mut out = Vec::with_capacity(numbers.len());
    for t in 0..tokens {
        for c in 0..width {
            let (mut low, mut high) = (at(t, c), at(t, c));
            match along {
                Along::Tokens => {
                    let first = t - t % GROUP;
                    for t in first..tokens.min(first + GROUP) {
                        low = low.min(at(t, c));
                        high = high.max(at(t, c));
                    }
                }
                Along::Channels => {
                    let first = c / GROUP * GROUP;
                    for c in first..width.min(first + GROUP) {
                        low = low.min(at(t, c));
                        high = high.max(at(t, c));
                    }
                }
            }
            let most = (1i64 << bits) - 1;
            let point = |k: i64| low as f64 + (high as f64 - low as f64) * k as f64 / most as f64;
            let nearest = (0..=most)
                .map(point)
                .min_by(|a, b| (a - at(t, c) as f64).abs().total_cmp(&(b - at(t, c) as f64).abs()))
                .unwrap();
            out.push(if low == high { at(t, c) } else { nearest as f32 });
        }
    }
    out
}

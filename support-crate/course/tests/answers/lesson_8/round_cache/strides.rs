// Starts, strides and counts; double precision.
// right
fn round_cache(numbers: &[f32], width: usize, along: Along, bits: u32) -> Vec<f32> {
    let tokens = numbers.len() / width;
    let mut out = numbers.to_vec();
    let mut groups: Vec<Vec<usize>> = Vec::new();
    match along {
        Along::Tokens => for c in 0..width {
            let channel: Vec<usize> = (0..tokens).map(|t| t * width + c).collect();
            groups.extend(channel.chunks(32).map(|g| g.to_vec()));
        },
        Along::Channels => for t in 0..tokens {
            let token: Vec<usize> = (t * width..(t + 1) * width).collect();
            groups.extend(token.chunks(32).map(|g| g.to_vec()));
        },
    }
    for group in groups {
        let x: Vec<f64> = group.iter().map(|&i| numbers[i] as f64).collect();
        let low = x.iter().cloned().fold(f64::MAX, f64::min);
        let high = x.iter().cloned().fold(f64::MIN, f64::max);
        if high == low { continue; }
        let step = (high - low) / (2f64.powi(bits as i32) - 1.0);
        for (i, x) in group.iter().zip(x) {
            out[*i] = (low + ((x - low) / step).round() * step) as f32;
        }
    }
    out
}

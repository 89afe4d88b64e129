// Chunks of 32 of all numbers.
// wrong: a group ends with its token
fn round_cache(numbers: &[f32], width: usize, along: Along, bits: u32) -> Vec<f32> {
    let tokens = numbers.len() / width;
    let mut out = numbers.to_vec();
    let mut places: Vec<usize> = (0..numbers.len()).collect();
    let mut round = |group: &[usize]| {
        let low = group.iter().map(|&i| numbers[i]).fold(f32::INFINITY, f32::min);
        let high = group.iter().map(|&i| numbers[i]).fold(f32::NEG_INFINITY, f32::max);
        let step = (high - low) / (2f32.powi(bits as i32) - 1.0);
        if step > 0.0 {
            group.iter().for_each(|&i| out[i] = low + ((numbers[i] - low) / step).round() * step);
        }
    };
    if along == Along::Channels {
        places.chunks(32).for_each(round);
    } else {
        (0..width).for_each(|c| (0..tokens).map(|t| t * width + c).collect::<Vec<_>>().chunks(32).for_each(&mut round));
    }
    out
}

// What later exercises use of those before them.
pub fn largest_by_channel(inputs: &[f32], channels: usize) -> Vec<f32> {
    let mut largest = vec![0.0_f32; channels];
    for token in inputs.chunks_exact(channels) {
        largest.iter_mut().zip(token).for_each(|(most, x)| *most = most.max(x.abs()));
    }
    largest
}

pub fn round_to(x: &[f32], columns: usize, per: Per, bits: u32) -> Vec<f32> {
    let last = 2.0_f32.powi(bits as i32 - 1) - 1.0;
    let group = |i: usize| match per {
        Per::Tensor => 0,
        Per::Row => i / columns,
        Per::Column => i % columns,
    };
    let mut largest = vec![0.0_f32; x.len()];
    for (i, x) in x.iter().enumerate() {
        largest[group(i)] = largest[group(i)].max(x.abs());
    }
    let round = |(i, x): (usize, &f32)| {
        let step = largest[group(i)] / last;
        if step > 0.0 { (x / step).round() * step } else { 0.0 }
    };
    x.iter().enumerate().map(round).collect()
}

pub fn hadamard(x: &mut [f32]) {
    if x.is_empty() {
        return;
    }
    let block = 1 << x.len().trailing_zeros();
    for x in x.chunks_exact_mut(block) {
        let mut half = 1;
        while half < block {
            for pair in x.chunks_exact_mut(2 * half) {
                let (low, high) = pair.split_at_mut(half);
                for (low, high) in low.iter_mut().zip(high) {
                    (*low, *high) = (*low + *high, *low - *high);
                }
            }
            half *= 2;
        }
        x.iter_mut().for_each(|x| *x /= (block as f32).sqrt());
    }
}

pub fn awq_scales(means: &[f32], power: f32) -> Vec<f32> {
    let powers: Vec<f32> = means.iter().map(|mean| mean.powf(power).max(1e-4)).collect();
    let smallest = powers.iter().copied().fold(f32::INFINITY, f32::min);
    let largest = powers.iter().copied().fold(0.0, f32::max);
    let middle = (smallest * largest).sqrt();
    powers.iter().map(|scale| scale / middle).collect()
}

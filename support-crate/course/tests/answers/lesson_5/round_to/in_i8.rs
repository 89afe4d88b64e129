// Keeps the whole numbers as i8: more than 8 bits are clipped at 127.
// wrong: 10 bits
fn round_to(x: &[f32], columns: usize, per: Per, bits: u32) -> Vec<f32> {
    let levels = ((1u32 << (bits - 1)) - 1) as f32;
    let group = |i: usize| match per {
        Per::Tensor => 0,
        Per::Row => i / columns,
        Per::Column => i % columns,
    };
    let mut peaks = vec![0.0f32; x.len()];
    x.iter().enumerate().for_each(|(i, x)| peaks[group(i)] = peaks[group(i)].max(x.abs()));
    x.iter()
        .enumerate()
        .map(|(i, &x)| {
            let step = peaks[group(i)] / levels;
            if step == 0.0 { 0.0 } else { step * ((x / step).round() as i8) as f32 }
        })
        .collect()
}

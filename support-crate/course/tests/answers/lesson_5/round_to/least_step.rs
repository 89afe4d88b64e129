// A least step of 1e-8 against division by 0: small numbers are lost.
// wrong: number
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
            let step = (peaks[group(i)] / levels).max(1e-8);
            step * (x / step).round()
        })
        .collect()
}

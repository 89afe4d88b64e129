// The next number below in place of the nearest.
// wrong: is nearer
fn quantize_block(values: &[f32], codebook: &[f32; 16]) -> (Vec<u8>, f32) {
    let absmax = values.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
    let scale = if absmax > 0.0 { absmax } else { 1.0 };
    let nearest = |value: f32| {
        let below = (0..16_u8).filter(|&code| codebook[usize::from(code)] <= value / scale + 1e-6);
        below.max_by(|&a, &b| codebook[usize::from(a)].total_cmp(&codebook[usize::from(b)])).unwrap_or(0)
    };
    let packed = values.chunks(2).map(|pair| nearest(pair[0]) << 4 | nearest(pair[1])).collect();
    (packed, absmax)
}

// The same with partial_cmp.
// wrong: For 64 zeros, the largest magnitude is 0
fn quantize_block(values: &[f32], codebook: &[f32; 16]) -> (Vec<u8>, f32) {
    let absmax = values.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
    let scale = absmax;
    let nearest = |value: f32| {
        let distance = |code: u8| (codebook[usize::from(code)] - value / scale).abs();
        (0..16_u8).min_by(|&a, &b| distance(a).partial_cmp(&distance(b)).unwrap()).unwrap_or(0)
    };
    let packed = values.chunks(2).map(|pair| nearest(pair[0]) << 4 | nearest(pair[1])).collect();
    (packed, absmax)
}

// The first value in the low half.
// wrong: the first value of each pair is in the low half
fn quantize_block(values: &[f32], codebook: &[f32; 16]) -> (Vec<u8>, f32) {
    let absmax = values.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
    let scale = if absmax > 0.0 { absmax } else { 1.0 };
    let nearest = |value: f32| {
        let distance = |code: u8| (codebook[usize::from(code)] - value / scale).abs();
        (0..16_u8).min_by(|&a, &b| distance(a).total_cmp(&distance(b))).unwrap_or(0)
    };
    let packed = values.chunks(2).map(|pair| nearest(pair[1]) << 4 | nearest(pair[0])).collect();
    (packed, absmax)
}

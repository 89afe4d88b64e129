// One code in each byte.
// wrong: one code each
fn quantize_block(values: &[f32], codebook: &[f32; 16]) -> (Vec<u8>, f32) {
    let absmax = values.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
    let scale = if absmax > 0.0 { absmax } else { 1.0 };
    let nearest = |value: f32| {
        let distance = |code: u8| (codebook[usize::from(code)] - value / scale).abs();
        (0..16_u8).min_by(|&a, &b| distance(a).total_cmp(&distance(b))).unwrap_or(0)
    };
    let packed = values.iter().map(|&value| nearest(value)).collect();
    (packed, absmax)
}

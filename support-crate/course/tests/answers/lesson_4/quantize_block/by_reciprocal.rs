// Multiplies by the reciprocal, as bitsandbytes does, and takes the last of equals.
// right
fn quantize_block(values: &[f32], codebook: &[f32; 16]) -> (Vec<u8>, f32) {
    let absmax = values.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
    let factor = if absmax == 0.0 { 0.0 } else { 1.0 / absmax };
    let nearest = |value: f32| {
        let distance = |code: u8| (codebook[usize::from(code)] - value * factor).abs();
        (0..16_u8).rev().min_by(|&a, &b| distance(a).total_cmp(&distance(b))).unwrap_or(0)
    };
    let packed = values.chunks(2).map(|pair| nearest(pair[0]) << 4 | nearest(pair[1])).collect();
    (packed, absmax)
}

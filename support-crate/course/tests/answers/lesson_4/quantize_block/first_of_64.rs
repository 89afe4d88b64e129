// Takes the block for 64 values long.
// wrong: it panicked
fn quantize_block(values: &[f32], codebook: &[f32; 16]) -> (Vec<u8>, f32) {
    let absmax = values[..64].iter().fold(0.0_f32, |m, v| m.max(v.abs()));
    let scale = if absmax == 0.0 { 1.0 } else { absmax };
    let nearest = |value: f32| (0..16_u8)
        .min_by(|&a, &b| (codebook[a as usize] - value / scale).abs().total_cmp(&(codebook[b as usize] - value / scale).abs()))
        .unwrap();
    (values.chunks(2).map(|pair| nearest(pair[0]) << 4 | nearest(pair[1])).collect(), absmax)
}

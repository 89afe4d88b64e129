// Adds a little to absmax, so that nothing is divided by zero.
// wrong: became all zeros
fn quantize_block(values: &[f32], codebook: &[f32; 16]) -> (Vec<u8>, f32) {
    let absmax = values.iter().fold(0.0_f32, |m, v| m.max(v.abs()));
    let scale = absmax + 1e-6;
    let nearest = |value: f32| (0..16_u8)
        .min_by(|&a, &b| (codebook[a as usize] - value / scale).abs().total_cmp(&(codebook[b as usize] - value / scale).abs()))
        .unwrap();
    (values.chunks(2).map(|pair| nearest(pair[0]) << 4 | nearest(pair[1])).collect(), absmax)
}

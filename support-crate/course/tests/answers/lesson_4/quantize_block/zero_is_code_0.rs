// Gives zeros code 0.
// wrong: 64 zeros got code 0
fn quantize_block(values: &[f32], codebook: &[f32; 16]) -> (Vec<u8>, f32) {
    let absmax = values.iter().fold(0.0_f32, |m, v| m.max(v.abs()));
    if absmax == 0.0 { return (vec![0; values.len() / 2], 0.0); }
    let nearest = |value: f32| (0..16_u8)
        .min_by(|&a, &b| (codebook[a as usize] - value / absmax).abs().total_cmp(&(codebook[b as usize] - value / absmax).abs()))
        .unwrap();
    (values.chunks(2).map(|pair| nearest(pair[0]) << 4 | nearest(pair[1])).collect(), absmax)
}

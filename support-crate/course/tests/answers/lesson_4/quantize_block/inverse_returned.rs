// Returns the reciprocal, which it multiplies by.
// wrong: absmax of a block of 64 is
fn quantize_block(values: &[f32], codebook: &[f32; 16]) -> (Vec<u8>, f32) {
    let largest = values.iter().fold(0.0_f32, |m, v| m.max(v.abs()));
    let absmax = if largest == 0.0 { 0.0 } else { 1.0 / largest };
    let nearest = |value: f32| (0..16_u8)
        .min_by(|&a, &b| (codebook[a as usize] - value * absmax).abs().total_cmp(&(codebook[b as usize] - value * absmax).abs()))
        .unwrap();
    (values.chunks(2).map(|pair| nearest(pair[0]) << 4 | nearest(pair[1])).collect(), absmax)
}

// For a block of zeros, takes the first number that is nearly zero, which may be 0.0052.
// wrong: which stands for -0.005
fn quantize_block(values: &[f32], codebook: &[f32; 16]) -> (Vec<u8>, f32) {
    let absmax = values.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
    if absmax == 0.0 {
        let zero = codebook.iter().position(|number| number.abs() < 0.01).unwrap_or(0) as u8;
        return (vec![zero << 4 | zero; values.len() / 2], absmax);
    }
    let scale = absmax;
    let nearest = |value: f32| {
        let distance = |code: u8| (codebook[usize::from(code)] - value / scale).abs();
        (0..16_u8).min_by(|&a, &b| distance(a).total_cmp(&distance(b))).unwrap_or(0)
    };
    let packed = values.chunks(2).map(|pair| nearest(pair[0]) << 4 | nearest(pair[1])).collect();
    (packed, absmax)
}

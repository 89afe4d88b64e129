// Counts the midpoints below, which takes an ascending codebook.
// wrong: is nearer
fn quantize_block(values: &[f32], codebook: &[f32; 16]) -> (Vec<u8>, f32) {
    let absmax = values.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
    let scale = if absmax > 0.0 { absmax } else { 1.0 };
    let nearest = |value: f32| {
        codebook.windows(2).filter(|pair| (pair[0] + pair[1]) / 2.0 < value / scale).count() as u8
    };
    let packed = values.chunks(2).map(|pair| nearest(pair[0]) << 4 | nearest(pair[1])).collect();
    (packed, absmax)
}

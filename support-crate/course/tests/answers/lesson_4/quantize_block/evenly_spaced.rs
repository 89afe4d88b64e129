// Sixteen even steps, whatever the codebook says.
// wrong: is nearer
fn quantize_block(values: &[f32], codebook: &[f32; 16]) -> (Vec<u8>, f32) {
    let absmax = values.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
    let scale = if absmax > 0.0 { absmax } else { 1.0 };
    let nearest = |value: f32| {
        ((value / scale + 1.0) / 2.0 * 15.0).round() as u8
    };
    let packed = values.chunks(2).map(|pair| nearest(pair[0]) << 4 | nearest(pair[1])).collect();
    (packed, absmax)
}

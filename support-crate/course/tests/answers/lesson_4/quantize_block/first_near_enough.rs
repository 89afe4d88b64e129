// Starts with a best distance of 0.5, so that a value further away from all numbers gets code 0.
// wrong: is nearer
fn quantize_block(values: &[f32], codebook: &[f32; 16]) -> (Vec<u8>, f32) {
    let absmax = values.iter().map(|value| value.abs()).fold(0.0_f32, f32::max);
    let scale = if absmax > 0.0 { absmax } else { 1.0 };
    let mut codes = Vec::new();
    for value in values {
        let (mut best, mut smallest) = (0_u8, 0.5_f32);
        for code in 0..16_u8 {
            let distance = (codebook[usize::from(code)] - value / scale).abs();
            if distance < smallest {
                best = code;
                smallest = distance;
            }
        }
        codes.push(best);
    }
    (codes.chunks(2).map(|pair| (pair[0] << 4) | pair[1]).collect(), absmax)
}

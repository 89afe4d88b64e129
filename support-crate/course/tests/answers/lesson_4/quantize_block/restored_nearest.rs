// Compares each value with the sixteen restored values instead of dividing, and returns early for a block of zeros.
// right
fn quantize_block(values: &[f32], codebook: &[f32; 16]) -> (Vec<u8>, f32) {
    let absmax = values.iter().map(|v| v.abs()).fold(0.0, f32::max);
    if absmax == 0.0 {
        let zero = codebook.iter().position(|&q| q == 0.0).unwrap_or(0) as u8;
        return (vec![zero << 4 | zero; values.len() / 2], 0.0);
    }
    let restored = codebook.map(|q| f64::from(q) * f64::from(absmax));
    let mut codes: Vec<u8> = Vec::with_capacity(values.len());
    for &value in values {
        let mut code = 0_usize;
        for other in 1..16 {
            if (restored[other] - f64::from(value)).abs() < (restored[code] - f64::from(value)).abs() {
                code = other;
            }
        }
        codes.push(code as u8);
    }
    (codes.chunks_exact(2).map(|two| (two[0] << 4) + two[1]).collect(), absmax)
}

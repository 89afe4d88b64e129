// Walks up the codebook until a number is larger than the value, and takes the nearer of that one and the one before.
// wrong: is nearer
fn quantize_block(values: &[f32], codebook: &[f32; 16]) -> (Vec<u8>, f32) {
    let absmax = values.iter().fold(0.0_f32, |m, v| m.max(v.abs()));
    let code = |value: f32| -> u8 {
        let x = if absmax == 0.0 { 0.0 } else { value / absmax };
        let mut above = 0;
        while above < 15 && codebook[above] < x {
            above += 1;
        }
        if above > 0 && x - codebook[above - 1] <= codebook[above] - x {
            (above - 1) as u8
        } else {
            above as u8
        }
    };
    let packed = values.chunks(2).map(|pair| code(pair[0]) << 4 | code(pair[1])).collect();
    (packed, absmax)
}

// With loops, in f64, and an early return for zeros.
// right
fn quantize_block(values: &[f32], codebook: &[f32; 16]) -> (Vec<u8>, f32) {
    let mut absmax = 0.0_f32;
    for value in values {
        if value.abs() > absmax {
            absmax = value.abs();
        }
    }
    if absmax == 0.0 {
        let zero = codebook.iter().position(|number| *number == 0.0).unwrap() as u8;
        return (vec![zero * 17; values.len() / 2], 0.0);
    }
    let mut packed = vec![0; values.len() / 2];
    for (i, value) in values.iter().enumerate() {
        let mut best = 0;
        for code in 1..16 {
            let distance = |code: usize| (f64::from(codebook[code]) - f64::from(*value) / f64::from(absmax)).abs();
            if distance(code) < distance(best) {
                best = code;
            }
        }
        packed[i / 2] += if i % 2 == 0 { 16 * best as u8 } else { best as u8 };
    }
    (packed, absmax)
}

// The last groups have four bits.
// wrong: upper two bits are missing
fn decode_q4_k(block: &[u8]) -> Vec<f32> {
    let (d, d_min) = (from_float16([block[0], block[1]]), from_float16([block[2], block[3]]));
    let p = &block[4..16];
    let mut numbers = Vec::with_capacity(256);
    for i in 0..8 {
        let (scale, minimum) = if i < 4 {
            (p[i] & 63, p[i + 4] & 63)
        } else {
            (p[i + 4] & 15, p[i + 4] >> 4)
        };
        let (scale, minimum) = (d * f32::from(scale), d_min * f32::from(minimum));
        for byte in &block[16 + i / 2 * 32..][..32] {
            let code = if i % 2 == 0 { byte & 15 } else { byte >> 4 };
            numbers.push(scale * f32::from(code) - minimum);
        }
    }
    numbers
}

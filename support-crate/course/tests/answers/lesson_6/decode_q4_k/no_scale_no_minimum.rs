// Where d is 0 it gives zeros, without the minima.
// wrong: a block of Q4_K: number 0 is 0
fn decode_q4_k(block: &[u8]) -> Vec<f32> {
    let d = from_float16([block[0], block[1]]);
    let d_min = from_float16([block[2], block[3]]);
    if d == 0.0 {
        return vec![0.0; 256];
    }
    let p = &block[4..16];
    let mut numbers = Vec::with_capacity(256);
    for i in 0..8 {
        let (scale, minimum) = if i < 4 {
            (p[i] & 63, p[i + 4] & 63)
        } else {
            ((p[i + 4] & 15) | (p[i - 4] >> 6 << 4), (p[i + 4] >> 4) | (p[i] >> 6 << 4))
        };
        for &byte in &block[16 + 32 * (i / 2)..][..32] {
            let code = if i % 2 == 0 { byte & 15 } else { byte >> 4 };
            numbers.push(d * f32::from(scale) * f32::from(code) - d_min * f32::from(minimum));
        }
    }
    numbers
}

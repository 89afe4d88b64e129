// One number at a time, in double precision.
// right
fn decode_q4_k(block: &[u8]) -> Vec<f32> {
    let half = |at: usize| from_float16([block[at], block[at + 1]]) as f64;
    let six = |g: usize, shift: usize| -> u32 {
        let low = |at: usize| u32::from(block[4 + at]);
        if g < 4 {
            low(g + shift) & 63
        } else {
            let at = if shift == 0 { low(g + 4) & 15 } else { low(g + 4) >> 4 };
            at + 16 * (low(g - 4 + shift) >> 6)
        }
    };
    (0..256)
        .map(|i| {
            let g = i / 32;
            let byte = block[16 + g / 2 * 32 + i % 32];
            let code = if g % 2 == 1 { byte / 16 } else { byte % 16 };
            (half(0) * six(g, 0) as f64 * code as f64 - half(2) * six(g, 4) as f64) as f32
        })
        .collect()
}

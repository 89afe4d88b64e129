// At their places.
// right
fn decode_q4_1(block: &[u8]) -> Vec<f32> {
    let half = |i: usize| from_float16([block[i], block[i + 1]]);
    let (d, m) = (half(0), half(2));
    (0..32).map(|i| (block[4 + i % 16] >> (i / 16 * 4) & 0xF) as f32 * d + m).collect()
}

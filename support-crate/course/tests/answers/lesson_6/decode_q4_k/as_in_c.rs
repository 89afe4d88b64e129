// As ggml has it: 64 numbers at a time.
// right
fn decode_q4_k(block: &[u8]) -> Vec<f32> {
    fn scale_min(j: usize, q: &[u8]) -> (u8, u8) {
        if j < 4 {
            (q[j] & 63, q[j + 4] & 63)
        } else {
            ((q[j + 4] & 0xF) | ((q[j - 4] >> 6) << 4), (q[j + 4] >> 4) | ((q[j] >> 6) << 4))
        }
    }
    let d = from_float16([block[0], block[1]]);
    let min = from_float16([block[2], block[3]]);
    let mut y = vec![];
    for (pair, q) in block[16..].chunks(32).enumerate() {
        let (sc, m) = scale_min(2 * pair, &block[4..16]);
        let (d1, m1) = (d * sc as f32, min * m as f32);
        let (sc, m) = scale_min(2 * pair + 1, &block[4..16]);
        let (d2, m2) = (d * sc as f32, min * m as f32);
        y.extend(q.iter().map(|q| d1 * (q & 0xF) as f32 - m1));
        y.extend(q.iter().map(|q| d2 * (q >> 4) as f32 - m2));
    }
    y
}

// Two per byte, at their places.
// right
fn decode_q4_0(block: &[u8]) -> Vec<f32> {
    let d = from_float16([block[0], block[1]]);
    let mut out = vec![0.0; 32];
    for i in 0..16 {
        let byte = block[2 + i];
        out[i] = d * ((byte % 16) as i32 - 8) as f32;
        out[i + 16] = d * ((byte / 16) as i32 - 8) as f32;
    }
    out
}

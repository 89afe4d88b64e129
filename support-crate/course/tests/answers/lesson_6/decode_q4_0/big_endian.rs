// The upper byte first.
// wrong: lower byte
fn decode_q4_0(block: &[u8]) -> Vec<f32> {
    let scale = from_float16([block[1], block[0]]);
    let bytes = &block[2..];
    let codes = bytes.iter().map(|byte| byte & 15).chain(bytes.iter().map(|byte| byte >> 4));
    codes.map(|code| scale * (f32::from(code) - 8.0)).collect()
}

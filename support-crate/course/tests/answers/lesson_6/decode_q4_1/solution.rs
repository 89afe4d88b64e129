// The notebook's own.
// right
fn decode_q4_1(block: &[u8]) -> Vec<f32> {
    let scale = from_float16([block[0], block[1]]);
    let minimum = from_float16([block[2], block[3]]);
    let bytes = &block[4..];
    let codes = bytes.iter().map(|byte| byte & 15).chain(bytes.iter().map(|byte| byte >> 4));
    codes.map(|code| scale * f32::from(code) + minimum).collect()
}

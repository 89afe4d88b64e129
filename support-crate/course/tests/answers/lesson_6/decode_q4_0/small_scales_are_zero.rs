// Decodes float16 by hand, without its smallest numbers.
// wrong: a block of Q4_0
fn decode_q4_0(block: &[u8]) -> Vec<f32> {
    let bits = u16::from_le_bytes([block[0], block[1]]);
    let sign = if bits >> 15 == 1 { -1.0f32 } else { 1.0 };
    let exponent = i32::from((bits >> 10) & 31);
    let fraction = 1.0 + f32::from(bits & 1023) / 1024.0;
    let scale = if exponent == 0 { 0.0 } else { sign * fraction * 2f32.powi(exponent - 15) };
    let codes = &block[2..18];
    let low = codes.iter().map(|byte| scale * (f32::from(byte & 15) - 8.0));
    low.chain(codes.iter().map(|byte| scale * (f32::from(byte >> 4) - 8.0))).collect()
}

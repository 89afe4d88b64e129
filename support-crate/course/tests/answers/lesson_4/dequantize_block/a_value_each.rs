// One value for each byte.
// wrong: each byte holds two codes
fn dequantize_block(packed: &[u8], absmax: f32, codebook: &[f32; 16]) -> Vec<f32> {
    let codes = packed.iter().map(|byte| byte & 15);
    codes.map(|code| codebook[usize::from(code)] * absmax).collect()
}

// Takes bytes of 0 at the end for what fills the block up.
// wrong: each byte holds two codes
fn dequantize_block(packed: &[u8], absmax: f32, codebook: &[f32; 16]) -> Vec<f32> {
    let end = packed.iter().rposition(|&byte| byte != 0).map_or(0, |at| at + 1);
    let packed = &packed[..end];
    let codes = packed.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    codes.map(|code| codebook[usize::from(code)] * absmax).collect()
}

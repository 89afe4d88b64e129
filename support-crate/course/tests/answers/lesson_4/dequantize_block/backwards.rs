// Goes through the bytes from the end.
// wrong: became
fn dequantize_block(packed: &[u8], absmax: f32, codebook: &[f32; 16]) -> Vec<f32> {
    packed.iter().rev().flat_map(|b| [b >> 4, b & 15]).map(|c| codebook[c as usize] * absmax).collect()
}

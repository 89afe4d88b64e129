// Restores at most 64 values, the usual size of a block.
// wrong: values; each byte holds two codes
fn dequantize_block(packed: &[u8], absmax: f32, codebook: &[f32; 16]) -> Vec<f32> {
    packed
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .take(64)
        .map(|code| codebook[usize::from(code)] * absmax)
        .collect()
}

// Restores all high halves and appends all low halves.
// wrong: all high halves came first
fn dequantize_block(packed: &[u8], absmax: f32, codebook: &[f32; 16]) -> Vec<f32> {
    let mut values: Vec<f32> = packed.iter().map(|byte| codebook[(byte >> 4) as usize] * absmax).collect();
    values.extend(packed.iter().map(|byte| codebook[(byte & 0x0f) as usize] * absmax));
    values
}

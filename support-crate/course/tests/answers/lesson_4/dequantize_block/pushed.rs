// With a loop.
// right
fn dequantize_block(packed: &[u8], absmax: f32, codebook: &[f32; 16]) -> Vec<f32> {
    let mut values = Vec::new();
    for byte in packed {
        values.push(absmax * codebook[(byte / 16) as usize]);
        values.push(absmax * codebook[(byte % 16) as usize]);
    }
    values
}

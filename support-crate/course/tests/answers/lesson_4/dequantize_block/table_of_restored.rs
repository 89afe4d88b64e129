// Multiplies the sixteen numbers once and then only looks them up.
// right
fn dequantize_block(packed: &[u8], absmax: f32, codebook: &[f32; 16]) -> Vec<f32> {
    let mut table = [0.0_f32; 16];
    for c in 0..16 {
        table[c] = absmax * codebook[c];
    }
    let mut values = Vec::with_capacity(packed.len() * 2);
    for byte in packed {
        values.push(table[usize::from(byte / 16)]);
        values.push(table[usize::from(byte % 16)]);
    }
    values
}

// Has a shortcut for blocks of zeros that gives a zero for each byte instead of two.
// wrong: values; each byte holds two codes
fn dequantize_block(packed: &[u8], absmax: f32, codebook: &[f32; 16]) -> Vec<f32> {
    if absmax == 0.0 {
        return vec![0.0; packed.len()];
    }
    let mut values = vec![];
    for &byte in packed {
        for code in [byte / 16, byte % 16] {
            values.push(codebook[usize::from(code)] * absmax);
        }
    }
    values
}

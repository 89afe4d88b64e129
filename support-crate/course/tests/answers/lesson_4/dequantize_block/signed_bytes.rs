// Shifts the byte as a signed number and masks the sign away in the wrong place.
// wrong: with absmax 1, the byte
fn dequantize_block(packed: &[u8], absmax: f32, codebook: &[f32; 16]) -> Vec<f32> {
    let mut values = Vec::new();
    for &byte in packed {
        let high = (byte as i8 >> 4) & 7;
        let low = byte & 15;
        values.push(codebook[high as usize] * absmax);
        values.push(codebook[low as usize] * absmax);
    }
    values
}

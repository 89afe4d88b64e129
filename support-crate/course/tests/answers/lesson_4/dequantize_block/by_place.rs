// Computes for each value which byte and which half it is in, and multiplies in f64.
// right
fn dequantize_block(packed: &[u8], absmax: f32, codebook: &[f32; 16]) -> Vec<f32> {
    let restore = |i: usize| {
        let shift = if i % 2 == 0 { 4 } else { 0 };
        let code = (packed[i / 2] >> shift) & 0b1111;
        (codebook[code as usize] as f64 * absmax as f64) as f32
    };
    (0..2 * packed.len()).map(restore).collect()
}

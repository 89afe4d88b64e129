// Nobody has written it yet.
// not yet
fn dequantize_block(packed: &[u8], absmax: f32, codebook: &[f32; 16]) -> Vec<f32> {
    todo!()
}

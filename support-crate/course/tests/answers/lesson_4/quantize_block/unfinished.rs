// Nobody has written it yet.
// not yet
fn quantize_block(values: &[f32], codebook: &[f32; 16]) -> (Vec<u8>, f32) {
    todo!()
}

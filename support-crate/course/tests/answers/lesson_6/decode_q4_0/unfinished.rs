// Nobody has written it yet.
// not yet
fn decode_q4_0(block: &[u8]) -> Vec<f32> {
    todo!()
}

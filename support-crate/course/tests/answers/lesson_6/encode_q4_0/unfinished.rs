// Nobody has written it yet.
// not yet
fn encode_q4_0(numbers: &[f32]) -> Vec<u8> {
    todo!()
}

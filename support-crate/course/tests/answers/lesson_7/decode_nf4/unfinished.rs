// Nobody has written it yet.
// not yet
fn decode_nf4(packed: &[u8], absmax: &[f32], first: usize, out: &mut [f32]) {
    todo!()
}

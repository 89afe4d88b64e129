// Looks up the first byte even if there is nothing to decode.
// wrong: index out of bounds
fn decode_nf4(packed: &[u8], absmax: &[f32], first: usize, out: &mut [f32]) {
    let book = FourBit::Nf4.codebook();
    let mut byte = packed[first / 2];
    for (j, weight) in out.iter_mut().enumerate() {
        let i = first + j;
        if i % 2 == 0 {
            byte = packed[i / 2];
        }
        let code = if i % 2 == 0 { byte >> 4 } else { byte & 15 };
        *weight = book[usize::from(code)] * absmax[i / 64];
    }
}

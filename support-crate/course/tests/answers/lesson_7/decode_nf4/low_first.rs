// The lower half first.
// wrong: the first of a byte's two codes is in its upper half
fn decode_nf4(packed: &[u8], absmax: &[f32], first: usize, out: &mut [f32]) {
    for (i, out) in (first..).zip(out) {
        let byte = packed[i / 2];
        let code = if i % 2 == 0 { byte & 15 } else { byte >> 4 };
        *out = FourBit::Nf4.codebook()[usize::from(code)] * absmax[i / 64];
    }
}

// The upper half twice.
// wrong: you took the upper one twice
fn decode_nf4(packed: &[u8], absmax: &[f32], first: usize, out: &mut [f32]) {
    for (i, out) in (first..).zip(out) {
        let byte = packed[i / 2];
        let code = byte >> 4;
        *out = FourBit::Nf4.codebook()[usize::from(code)] * absmax[i / 64];
    }
}

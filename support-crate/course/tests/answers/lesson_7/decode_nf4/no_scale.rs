// Without scales.
// wrong: times the block's `absmax`
fn decode_nf4(packed: &[u8], absmax: &[f32], first: usize, out: &mut [f32]) {
    for (i, out) in (first..).zip(out) {
        let byte = packed[i / 2];
        let code = if i % 2 == 0 { byte >> 4 } else { byte & 15 };
        *out = FourBit::Nf4.codebook()[usize::from(code)];
    }
}

// Pairs, of which the last needs both codes.
// wrong: it panicked
fn decode_nf4(packed: &[u8], absmax: &[f32], first: usize, out: &mut [f32]) {
    for (pair, byte) in packed[first / 2..].iter().enumerate().take(out.len().div_ceil(2)) {
        for (half, code) in [byte >> 4, byte & 15].into_iter().enumerate() {
            let at = 2 * pair + half;
            out[at] = FourBit::Nf4.codebook()[usize::from(code)] * absmax[(first + at) / 64];
        }
    }
}

// Takes the first weight for the upper half of its byte.
// wrong: is in the lower half of its byte if `first` is odd
fn decode_nf4(packed: &[u8], absmax: &[f32], first: usize, out: &mut [f32]) {
    for (at, out) in out.iter_mut().enumerate() {
        let byte = packed[first / 2 + at / 2];
        let code = if at % 2 == 0 { byte >> 4 } else { byte & 15 };
        *out = FourBit::Nf4.codebook()[usize::from(code)] * absmax[(first + at) / 64];
    }
}

// By shifts.
// right
fn decode_nf4(packed: &[u8], absmax: &[f32], first: usize, out: &mut [f32]) {
    for at in 0..out.len() {
        let i = first + at;
        let shift = 4 - 4 * (i & 1);
        out[at] = FourBit::Nf4.codebook()[usize::from(packed[i >> 1] >> shift & 0xf)] * absmax[i >> 6];
    }
}

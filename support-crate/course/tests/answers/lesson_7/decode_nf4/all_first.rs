// Unpacks all codes first.
// right
fn decode_nf4(packed: &[u8], absmax: &[f32], first: usize, out: &mut [f32]) {
    let codes: Vec<u8> = packed.iter().flat_map(|byte| [byte >> 4, byte & 15]).collect();
    for at in 0..out.len() {
        let number = FourBit::Nf4.codebook()[codes[first + at] as usize];
        out[at] = number * absmax[(first + at) / 64];
    }
}

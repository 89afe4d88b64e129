// Upper and lower halves are counted from `first`, so an odd one swaps them.
// wrong: counted from the beginning of the matrix, not from
fn decode_nf4(packed: &[u8], absmax: &[f32], first: usize, out: &mut [f32]) {
    let book = FourBit::Nf4.codebook();
    for (j, weight) in out.iter_mut().enumerate() {
        let i = first + j;
        let byte = packed[i / 2];
        let code = if j % 2 == 0 { byte >> 4 } else { byte & 15 };
        *weight = book[usize::from(code)] * absmax[i / 64];
    }
}

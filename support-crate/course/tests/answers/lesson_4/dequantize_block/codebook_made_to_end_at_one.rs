// Divides the codebook by its largest number first, as if it always ended at 1.
// wrong: ends neither at -1 nor at 1
fn dequantize_block(packed: &[u8], absmax: f32, codebook: &[f32; 16]) -> Vec<f32> {
    let largest = codebook.iter().fold(0.0_f32, |largest, q| largest.max(q.abs()));
    let table = codebook.map(|q| q / largest * absmax);
    let mut values = Vec::with_capacity(2 * packed.len());
    for &byte in packed {
        values.push(table[usize::from(byte >> 4)]);
        values.push(table[usize::from(byte & 0x0F)]);
    }
    values
}

// Sorts the codebook, and so takes the code for a rank.
// wrong: with a codebook that ends neither
fn dequantize_block(packed: &[u8], absmax: f32, codebook: &[f32; 16]) -> Vec<f32> {
    let mut numbers = *codebook;
    numbers.sort_by(f32::total_cmp);
    let codes = packed.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    codes.map(|code| numbers[usize::from(code)] * absmax).collect()
}

// Bits.
// wrong: a byte has 8 bits
fn head_bytes(tokens: usize, head_dim: usize, bits: usize) -> usize {
    let groups = tokens.saturating_sub(33) / GROUP;
    let codes = 2 * GROUP * head_dim * bits;
    let scales = 4 * (head_dim + GROUP * head_dim.div_ceil(GROUP));
    groups * (codes + scales) + 2 * 2 * head_dim * tokens.min(128)
}

// Codes of a token, rounded down to whole bytes.
// wrong: 33 channels, 4 bits
fn head_bytes(tokens: usize, head_dim: usize, bits: usize) -> usize {
    let groups = tokens.saturating_sub(33) / GROUP;
    let codes = 2 * GROUP * (head_dim * bits / 8);
    let scales = 4 * (head_dim + GROUP * head_dim.div_ceil(GROUP));
    groups * (codes + scales) + 2 * 2 * head_dim * tokens.min(128)
}

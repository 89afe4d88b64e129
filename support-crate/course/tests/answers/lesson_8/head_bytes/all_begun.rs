// Also the group that is not full.
// wrong: in no group yet
fn head_bytes(tokens: usize, head_dim: usize, bits: usize) -> usize {
    let groups = tokens.div_ceil(GROUP);
    let codes = 2 * GROUP * head_dim * bits / 8;
    let scales = 4 * (head_dim + GROUP * head_dim.div_ceil(GROUP));
    groups * (codes + scales) + 2 * 2 * head_dim * tokens.min(128)
}

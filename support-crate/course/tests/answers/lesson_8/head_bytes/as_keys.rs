// Values as keys.
// wrong: begun ones included
fn head_bytes(tokens: usize, head_dim: usize, bits: usize) -> usize {
    let groups = tokens.saturating_sub(33) / GROUP;
    let codes = 2 * GROUP * head_dim * bits / 8;
    let scales = 8 * head_dim;
    groups * (codes + scales) + 2 * 2 * head_dim * tokens.min(128)
}

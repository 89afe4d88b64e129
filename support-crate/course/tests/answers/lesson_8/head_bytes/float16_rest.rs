// In float16 only what is in no group.
// wrong: those in groups among them
fn head_bytes(tokens: usize, head_dim: usize, bits: usize) -> usize {
    let groups = tokens.saturating_sub(33) / 32;
    let codes = groups * 32 * head_dim * bits / 8 * 2;
    let key_scales = groups * head_dim * 4;
    let value_scales = groups * 32 * head_dim.div_ceil(32) * 4;
    let recent = (tokens - groups * 32) * head_dim * 4;
    codes + key_scales + value_scales + recent
}

// In bits, and eight of them at the end.
// right
fn head_bytes(tokens: usize, head_dim: usize, bits: usize) -> usize {
    let in_codes = if tokens > 33 { (tokens - 33) / 32 * 32 } else { 0 };
    let keys = in_codes * head_dim * bits + in_codes / 32 * head_dim * 32;
    let values = in_codes * head_dim * bits + in_codes * ((head_dim + 31) / 32) * 32;
    let recent = 2 * 16 * head_dim * std::cmp::min(tokens, 128);
    (keys + values + recent) / 8
}

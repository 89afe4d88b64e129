// Nobody has written it yet.
// not yet
#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma"))]
fn nf4_wide(packed: &[u8], absmax: &[f32], x: &[f32]) -> f32 {
    todo!()
}

fn dot_nf4(packed: &[u8], absmax: &[f32], x: &[f32]) -> f32 {
    if has_vectors() {
        // SAFETY: there is what `nf4_wide` is compiled for.
        return unsafe { nf4_wide(packed, absmax, x) };
    }
    let mut weights = vec![0.0; x.len()];
    decode_nf4(packed, absmax, 0, &mut weights);
    dot_in_lanes(&weights, x)
}

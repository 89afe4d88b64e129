// Nobody has written it yet.
// not yet
#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma"))]
fn dot_wide(w: &[f32], x: &[f32]) -> f32 {
    todo!()
}

fn dot_vectors(w: &[f32], x: &[f32]) -> f32 {
    // SAFETY: `dot_wide` is called only where there is what it is compiled for.
    if has_vectors() { unsafe { dot_wide(w, x) } } else { dot_in_lanes(w, x) }
}

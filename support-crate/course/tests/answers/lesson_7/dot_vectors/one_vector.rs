// One vector of sums: right, and slow.
// right
#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma"))]
fn dot_wide(w: &[f32], x: &[f32]) -> f32 {
    let mut sums = all(0.0);
    let ((ws, w_tail), (xs, x_tail)) = (w.as_chunks::<8>(), x.as_chunks::<8>());
    for (w, x) in ws.iter().zip(xs) {
        sums = mul_add(load(w), load(x), sums);
    }
    sum(sums) + dot_in_order(w_tail, x_tail)
}

fn dot_vectors(w: &[f32], x: &[f32]) -> f32 {
    // SAFETY: `dot_wide` is called only where there is what it is compiled for.
    if has_vectors() { unsafe { dot_wide(w, x) } } else { dot_in_lanes(w, x) }
}

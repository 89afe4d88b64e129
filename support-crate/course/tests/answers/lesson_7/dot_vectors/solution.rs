// As in the notebook.
// right
#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma"))]
fn dot_wide(w: &[f32], x: &[f32]) -> f32 {
    let mut sums = [all(0.0); 4];
    let ((ws, w_tail), (xs, x_tail)) = (w.as_chunks::<32>(), x.as_chunks::<32>());
    for (w, x) in ws.iter().zip(xs) {
        for i in 0..4 {
            sums[i] = mul_add(load(&w[8 * i..]), load(&x[8 * i..]), sums[i]);
        }
    }
    let [a, b, c, d] = sums;
    sum(a) + sum(b) + sum(c) + sum(d) + dot_in_order(w_tail, x_tail)
}

fn dot_vectors(w: &[f32], x: &[f32]) -> f32 {
    // SAFETY: `dot_wide` is called only where there is what it is compiled for.
    if has_vectors() { unsafe { dot_wide(w, x) } } else { dot_in_lanes(w, x) }
}

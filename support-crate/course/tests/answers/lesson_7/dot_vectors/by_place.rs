// By the place in the slices, sums in a loop.
// right
#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma"))]
fn dot_wide(w: &[f32], x: &[f32]) -> f32 {
    let (mut sums, whole) = ([all(0.0); 2], w.len() / 16 * 16);
    for at in (0..whole).step_by(16) {
        for i in 0..2 {
            let at = at + 8 * i;
            sums[i] = mul_add(load(&w[at..at + 8]), load(&x[at..at + 8]), sums[i]);
        }
    }
    let mut total = dot_in_order(&w[whole..], &x[whole..]);
    for vector in sums {
        total += sum(vector);
    }
    total
}

fn dot_vectors(w: &[f32], x: &[f32]) -> f32 {
    // SAFETY: `dot_wide` is called only where there is what it is compiled for.
    if has_vectors() { unsafe { dot_wide(w, x) } } else { dot_in_lanes(w, x) }
}

// One row after the other.
// right
#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma"))]
fn four_wide(rows: [&[f32]; 4], x: &[f32]) -> [f32; 4] {
    let mut out = [0.0; 4];
    for (out, row) in out.iter_mut().zip(rows) {
        let mut sums = all(0.0);
        let ((ws, w_tail), (xs, x_tail)) = (row.as_chunks::<8>(), x.as_chunks::<8>());
        for (w, x) in ws.iter().zip(xs) {
            sums = mul_add(load(w), load(x), sums);
        }
        *out = sum(sums) + dot_in_order(w_tail, x_tail);
    }
    out
}

fn four_dots(rows: [&[f32]; 4], x: &[f32]) -> [f32; 4] {
    // SAFETY: `four_wide` is called only where there is what it is compiled for.
    if has_vectors() { unsafe { four_wide(rows, x) } } else { rows.map(|row| dot_in_lanes(row, x)) }
}

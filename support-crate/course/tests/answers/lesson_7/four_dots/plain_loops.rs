// Without vectors.
// right
#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma"))]
fn four_wide(rows: [&[f32]; 4], x: &[f32]) -> [f32; 4] {
    let mut out = [0.0; 4];
    for i in 0..x.len() {
        for r in 0..4 {
            out[r] += rows[r][i] * x[i];
        }
    }
    out
}

fn four_dots(rows: [&[f32]; 4], x: &[f32]) -> [f32; 4] {
    // SAFETY: `four_wide` is called only where there is what it is compiled for.
    if has_vectors() { unsafe { four_wide(rows, x) } } else { rows.map(|row| dot_in_lanes(row, x)) }
}

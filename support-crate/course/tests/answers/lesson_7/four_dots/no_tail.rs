// What does not fill a vector is left out.
// wrong: the last numbers, which do not fill a chunk, are missing
#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma"))]
fn four_wide(rows: [&[f32]; 4], x: &[f32]) -> [f32; 4] {
    let mut sums = [all(0.0); 4];
    let whole = x.len() / 8 * 8;
    for at in (0..whole).step_by(8) {
        let inputs = load(&x[at..]);
        for r in 0..4 {
            sums[r] = mul_add(load(&rows[r][at..]), inputs, sums[r]);
        }
    }
    let mut out = [0.0; 4];
    for r in 0..4 {
        out[r] = sum(sums[r]);
    }
    out
}

fn four_dots(rows: [&[f32]; 4], x: &[f32]) -> [f32; 4] {
    // SAFETY: `four_wide` is called only where there is what it is compiled for.
    if has_vectors() { unsafe { four_wide(rows, x) } } else { rows.map(|row| dot_in_lanes(row, x)) }
}

// A vector of inputs that are all 0 is left out, with NaN and infinity among the weights.
// wrong: times 0
#[cfg_attr(target_arch = "x86_64", target_feature(enable = "avx2,fma"))]
fn four_wide(rows: [&[f32]; 4], x: &[f32]) -> [f32; 4] {
    let mut sums = [all(0.0); 4];
    let whole = x.len() / 8 * 8;
    for at in (0..whole).step_by(8) {
        if x[at..at + 8].iter().all(|x| *x == 0.0) {
            continue;
        }
        let shared = load(&x[at..]);
        for i in 0..4 {
            sums[i] = mul_add(load(&rows[i][at..]), shared, sums[i]);
        }
    }
    let mut dots = [0.0; 4];
    for i in 0..4 {
        dots[i] = sum(sums[i]);
        for at in whole..x.len() {
            dots[i] += rows[i][at] * x[at];
        }
    }
    dots
}

fn four_dots(rows: [&[f32]; 4], x: &[f32]) -> [f32; 4] {
    // SAFETY: `four_wide` is called only where there is what it is compiled for.
    if has_vectors() { unsafe { four_wide(rows, x) } } else { rows.map(|row| dot_in_lanes(row, x)) }
}

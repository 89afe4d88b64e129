// With indices.
// right
fn in_blocks(weights: &[f32], x: &[f32], y: &mut [f32]) {
    let (n, k) = (y.len(), x.len());
    let row = |r: usize| &weights[r * k..(r + 1) * k];
    for r in (0..n / 4).map(|block| 4 * block) {
        y[r..r + 4].copy_from_slice(&four_dots([row(r), row(r + 1), row(r + 2), row(r + 3)], x));
    }
    for r in n / 4 * 4..n {
        y[r] = dot_vectors(row(r), x);
    }
}

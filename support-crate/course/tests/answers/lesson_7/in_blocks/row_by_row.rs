// Without blocks: right, and no faster than before.
// right
fn in_blocks(weights: &[f32], x: &[f32], y: &mut [f32]) {
    for (r, y) in y.iter_mut().enumerate() {
        *y = dot_vectors(&weights[r * x.len()..][..x.len()], x);
    }
}

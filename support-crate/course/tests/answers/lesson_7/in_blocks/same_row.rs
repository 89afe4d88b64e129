// One row four times.
// wrong: if `four_dots` or `dot_vectors` lost points above
fn in_blocks(weights: &[f32], x: &[f32], y: &mut [f32]) {
    let k = x.len();
    if k == 0 {
        y.fill(0.0);
        return;
    }
    let blocks = weights.chunks_exact(4 * k);
    let (fours, rest) = y.as_chunks_mut::<4>();
    each_row(dot_vectors, blocks.remainder(), x, rest);
    for (block, y) in blocks.zip(fours) {
        let row = |r: usize| &block[r * k..(r + 1) * k];
        *y = four_dots([row(0), row(0), row(0), row(0)], x);
    }
}

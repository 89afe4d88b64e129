// Parts, but all on the calling thread.
// wrong: 1 thread computed
fn in_threads(threads: usize, y: &mut [f32], part: &(dyn Fn(usize, &mut [f32]) + Sync)) {
    let rows = y.len().div_ceil(threads).max(1);
    for (i, y) in y.chunks_mut(rows).enumerate() {
        part(i * rows, y);
    }
}

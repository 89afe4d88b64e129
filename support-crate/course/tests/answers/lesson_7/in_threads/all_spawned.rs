// A thread for each part, and none of them the calling one.
// right
fn in_threads(threads: usize, y: &mut [f32], part: &(dyn Fn(usize, &mut [f32]) + Sync)) {
    let rows = y.len().div_ceil(threads).max(1);
    std::thread::scope(|scope| {
        for (i, y) in y.chunks_mut(rows).enumerate() {
            scope.spawn(move || part(i * rows, y));
        }
    });
}

// Panics where there are no rows.
// wrong: 0 rows (`y` may be empty), 1 thread: it panicked
fn in_threads(threads: usize, y: &mut [f32], part: &(dyn Fn(usize, &mut [f32]) + Sync)) {
    let rows = y.len().div_ceil(threads);
    std::thread::scope(|scope| {
        for (i, y) in y.chunks_mut(rows).enumerate() {
            scope.spawn(move || part(i * rows, y));
        }
    });
}

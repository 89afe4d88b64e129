// A thread for each row.
// wrong: takes more threads than that
fn in_threads(threads: usize, y: &mut [f32], part: &(dyn Fn(usize, &mut [f32]) + Sync)) {
    std::thread::scope(|scope| {
        for (i, y) in y.chunks_mut(1).enumerate() {
            scope.spawn(move || part(i, y));
        }
    });
}

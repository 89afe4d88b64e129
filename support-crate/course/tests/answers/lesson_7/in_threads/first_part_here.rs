// The first part on the calling thread.
// right
fn in_threads(threads: usize, y: &mut [f32], part: &(dyn Fn(usize, &mut [f32]) + Sync)) {
    let rows = y.len().div_ceil(threads).max(1);
    let mut parts = y.chunks_mut(rows).enumerate();
    let mine = parts.next();
    std::thread::scope(|scope| {
        for (i, y) in parts {
            scope.spawn(move || part(i * rows, y));
        }
        if let Some((_, y)) = mine {
            part(0, y);
        }
    });
}

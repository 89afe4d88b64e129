// As in the notebook.
// right
fn in_threads(threads: usize, y: &mut [f32], part: &(dyn Fn(usize, &mut [f32]) + Sync)) {
    let rows = y.len().div_ceil(threads).max(1);
    std::thread::scope(|scope| {
        let mut parts = y.chunks_mut(rows).enumerate();
        let own = parts.next();
        for (i, y) in parts {
            scope.spawn(move || part(i * rows, y));
        }
        if let Some((_, y)) = own {
            part(0, y);
        }
    });
}

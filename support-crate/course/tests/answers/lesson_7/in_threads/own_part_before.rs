// The calling thread computes its part before it spawns the others.
// wrong: or compute a part yourself
fn in_threads(threads: usize, y: &mut [f32], part: &(dyn Fn(usize, &mut [f32]) + Sync)) {
    let share = y.len().div_ceil(threads).max(1);
    let (own, others) = y.split_at_mut(share.min(y.len()));
    if !own.is_empty() {
        part(0, own);
    }
    std::thread::scope(|scope| {
        for (i, rows) in others.chunks_mut(share).enumerate() {
            scope.spawn(move || part((i + 1) * share, rows));
        }
    });
}

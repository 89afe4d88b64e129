// Always two threads.
// wrong: takes more threads than that
fn in_threads(threads: usize, y: &mut [f32], part: &(dyn Fn(usize, &mut [f32]) + Sync)) {
    let middle = y.len().div_ceil(2);
    let (a, b) = y.split_at_mut(middle);
    std::thread::scope(|scope| {
        scope.spawn(|| part(0, a));
        part(middle, b);
    });
}

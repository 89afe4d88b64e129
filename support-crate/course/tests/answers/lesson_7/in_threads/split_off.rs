// Cuts parts off that differ by one row at most.
// right
fn in_threads(threads: usize, y: &mut [f32], part: &(dyn Fn(usize, &mut [f32]) + Sync)) {
    let (n, mut rest, mut first) = (y.len(), y, 0);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let end = n * (thread + 1) / threads;
            let (mine, others) = rest.split_at_mut(end - first);
            let begin = first;
            scope.spawn(move || part(begin, mine));
            (rest, first) = (others, end);
        }
    });
}

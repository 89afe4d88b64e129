// Borders at rows * t / threads, the calling thread takes the last part; parts may be empty.
// right
fn in_threads(threads: usize, y: &mut [f32], part: &(dyn Fn(usize, &mut [f32]) + Sync)) {
    let rows = y.len();
    std::thread::scope(|scope| {
        let (mut rest, mut first) = (y, 0);
        for t in 1..=threads {
            let end = rows * t / threads;
            let (mine, others) = rest.split_at_mut(end - first);
            rest = others;
            let begin = first;
            first = end;
            if t < threads {
                scope.spawn(move || part(begin, mine));
            } else {
                part(begin, mine);
            }
        }
    });
}

// The last thread takes all that is left over.
// wrong: all wait for the thread that has most to do
fn in_threads(threads: usize, y: &mut [f32], part: &(dyn Fn(usize, &mut [f32]) + Sync)) {
    let (n, rows) = (y.len(), y.len() / threads);
    std::thread::scope(|scope| {
        let mut rest = y;
        for i in 0..threads {
            let len = if i + 1 == threads { n - i * rows } else { rows };
            let (mine, others) = rest.split_at_mut(len);
            scope.spawn(move || part(i * rows, mine));
            rest = others;
        }
    });
}

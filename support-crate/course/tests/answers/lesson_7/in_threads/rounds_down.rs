// Rows left over when rounded down.
// wrong: that many are left over when rows over threads is rounded down
fn in_threads(threads: usize, y: &mut [f32], part: &(dyn Fn(usize, &mut [f32]) + Sync)) {
    let rows = y.len() / threads;
    std::thread::scope(|scope| {
        let mut rest = y;
        for i in 0..threads {
            let (mine, others) = rest.split_at_mut(rows);
            scope.spawn(move || part(i * rows, mine));
            rest = others;
        }
    });
}

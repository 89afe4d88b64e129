// Nobody has written it yet.
// not yet
fn work(m: usize, n: usize, k: usize, bits: f64) -> Work {
    todo!()
}

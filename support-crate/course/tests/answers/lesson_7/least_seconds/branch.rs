// Compares first.
// right
fn least_seconds(work: &Work, gb_per_s: f64, gops: f64) -> f64 {
    let memory = work.bytes / gb_per_s;
    let arithmetic = work.operations / gops;
    1e-9 * if memory > arithmetic { memory } else { arithmetic }
}

// Nobody has written it yet.
// not yet
fn least_seconds(work: &Work, gb_per_s: f64, gops: f64) -> f64 {
    todo!()
}

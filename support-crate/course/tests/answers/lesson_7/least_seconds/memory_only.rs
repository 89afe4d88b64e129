// Memory alone.
// wrong: take the longer one
fn least_seconds(work: &Work, gb_per_s: f64, gops: f64) -> f64 {
    work.bytes / (1e9 * gb_per_s)
}

// Times the speeds.
// wrong: divide by the speeds
fn least_seconds(work: &Work, gb_per_s: f64, gops: f64) -> f64 {
    (work.bytes * gb_per_s).max(work.operations * gops)
}

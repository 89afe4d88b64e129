// The shorter of the two.
// wrong: the work has ended when both have
fn least_seconds(work: &Work, gb_per_s: f64, gops: f64) -> f64 {
    (work.bytes / (1e9 * gb_per_s)).min(work.operations / (1e9 * gops))
}

// One after the other.
// wrong: reading and computing overlap
fn least_seconds(work: &Work, gb_per_s: f64, gops: f64) -> f64 {
    (work.bytes / (1e9 * gb_per_s))+(work.operations / (1e9 * gops))
}

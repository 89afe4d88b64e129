// The units left out.
// wrong: are in 10^9 per second
fn least_seconds(work: &Work, gb_per_s: f64, gops: f64) -> f64 {
    (work.bytes / (gb_per_s)).max(work.operations / (gops))
}

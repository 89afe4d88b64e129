// A multiply-add counts once.
// wrong: already counts
fn least_seconds(work: &Work, gb_per_s: f64, gops: f64) -> f64 {
    (work.bytes / gb_per_s).max(work.operations / 2.0 / gops) / 1e9
}

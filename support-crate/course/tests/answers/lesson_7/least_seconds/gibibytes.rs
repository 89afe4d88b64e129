// A gigabyte has 2^30 bytes.
// wrong: not 2^30
fn least_seconds(work: &Work, gb_per_s: f64, gops: f64) -> f64 {
    let reading = work.bytes / (gb_per_s * f64::from(1u32 << 30));
    reading.max(work.operations / (gops * 1e9))
}

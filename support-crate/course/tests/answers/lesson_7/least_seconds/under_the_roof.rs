// Operations over the height of the roof above their intensity.
// right
fn least_seconds(work: &Work, gb_per_s: f64, gops: f64) -> f64 {
    let roof = f64::min(gops, work.intensity() * gb_per_s);
    work.operations / roof * 1e-9
}

// Not begun.
// not yet
fn percentile(values: &[f64], percent: f64) -> f64 {
    todo!()
}

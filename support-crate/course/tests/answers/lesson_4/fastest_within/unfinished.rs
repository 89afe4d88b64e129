// Nobody has written it yet.
// not yet
fn fastest_within(results: &DataFrame, mib: f64, nats: f64) -> Result<DataFrame> {
    todo!()
}

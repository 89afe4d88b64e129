// Does not sort.
// wrong: which is faster
fn fastest_within(results: &DataFrame, mib: f64, nats: f64) -> Result<DataFrame> {
    let is_small = results.column("memory with scales (MiB)")?.f64()?.lt_eq(mib);
    let is_good = results.column("KL divergence (nats)")?.f64()?.lt(nats);
    Ok(results.filter(&(&is_small & &is_good))?)
}

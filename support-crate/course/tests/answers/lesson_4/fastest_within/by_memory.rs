// Sorted by memory.
// wrong: which is faster
fn fastest_within(results: &DataFrame, mib: f64, nats: f64) -> Result<DataFrame> {
    let is_small = results.column("memory with scales (MiB)")?.f64()?.lt_eq(mib);
    let is_good = results.column("KL divergence (nats)")?.f64()?.lt(nats);
    let fitting = results.filter(&(&is_small & &is_good))?;
    let order = SortMultipleOptions::default().with_order_descending(true);
    Ok(fitting.sort(["memory with scales (MiB)"], order)?)
}

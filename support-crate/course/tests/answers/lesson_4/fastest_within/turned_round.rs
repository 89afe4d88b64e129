// Sorted in ascending order, and turned round.
// right
fn fastest_within(results: &DataFrame, mib: f64, nats: f64) -> Result<DataFrame> {
    let is_small = results.column("memory with scales (MiB)")?.f64()?.lt_eq(mib);
    let is_good = results.column("KL divergence (nats)")?.f64()?.lt(nats);
    let fitting = results.filter(&(&is_small & &is_good))?;
    let order = SortMultipleOptions::default().with_order_descending(false);
    Ok(fitting.sort(["decode (tokens/s)"], order)?.reverse())
}

// One limit after the other, sorted first.
// right
fn fastest_within(results: &DataFrame, mib: f64, nats: f64) -> Result<DataFrame> {
    let order = SortMultipleOptions::default().with_order_descending(true);
    let sorted = results.sort(["decode (tokens/s)"], order)?;
    let small = sorted.filter(&sorted.column("memory with scales (MiB)")?.f64()?.lt_eq(mib))?;
    Ok(small.filter(&small.column("KL divergence (nats)")?.f64()?.lt(nats))?)
}

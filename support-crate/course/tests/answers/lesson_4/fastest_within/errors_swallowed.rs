// Takes an error for an empty table.
// wrong: pass errors on with `?`
fn fastest_within(results: &DataFrame, mib: f64, nats: f64) -> Result<DataFrame> {
    let is_small = match results.column("memory with scales (MiB)") {
        Ok(memory) => memory.f64()?.lt_eq(mib),
        Err(_) => return Ok(DataFrame::default()),
    };
    let is_good = results.column("KL divergence (nats)")?.f64()?.lt(nats);
    let fitting = results.filter(&(&is_small & &is_good))?;
    let order = SortMultipleOptions::default().with_order_descending(true);
    Ok(fitting.sort(["decode (tokens/s)"], order).unwrap_or_default())
}

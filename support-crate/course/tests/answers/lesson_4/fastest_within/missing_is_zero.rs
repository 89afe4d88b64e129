// Takes what was not compared for perfect.
// wrong: not compared with full precision
fn fastest_within(results: &DataFrame, mib: f64, nats: f64) -> Result<DataFrame> {
    let memory = results.column("memory with scales (MiB)")?.f64()?;
    let kl = results.column("KL divergence (nats)")?.f64()?;
    let rows = memory.iter().zip(kl.iter());
    let mask = rows.map(|(memory, kl)| memory.unwrap_or(0.0) <= mib && kl.unwrap_or(0.0) < nats).collect();
    let fitting = results.filter(&mask)?;
    let order = SortMultipleOptions::default().with_order_descending(true);
    Ok(fitting.sort(["decode (tokens/s)"], order)?)
}

// float16 on a CPU without saying so.
// wrong: a table with it would mislead
fn resolve_dtype(requested: &str, device: Device) -> Result<ResolvedDtype> {
    let mut dtype = requested.parse::<Precision>()?;
    if dtype == Precision::Float16 && device.is_cpu() {
        dtype = Precision::Float32;
    }
    Ok(ResolvedDtype { dtype, label: requested.to_lowercase() })
}

// Does not say that it was forced.
// wrong: a table with it would mislead
fn resolve_dtype(requested: &str, device: Device) -> Result<ResolvedDtype> {
    let dtype = requested.parse::<Precision>()?;
    Ok(match (dtype, device) {
        (Precision::Float16, Device::Cpu) => ResolvedDtype {
            dtype: Precision::Float32,
            label: "float32 on CPU".to_owned(),
        },
        _ => ResolvedDtype { dtype, label: dtype.to_string() },
    })
}

// Panics where an error is asked for.
// wrong: it panicked
fn resolve_dtype(requested: &str, device: Device) -> Result<ResolvedDtype> {
    let dtype = requested.parse::<Precision>().unwrap();
    Ok(match (dtype, device) {
        (Precision::Float16, Device::Cpu) => ResolvedDtype {
            dtype: Precision::Float32,
            label: "float32 (forced on CPU)".to_owned(),
        },
        _ => ResolvedDtype { dtype, label: dtype.to_string() },
    })
}

// Falls back to float32 for names that it does not know.
// wrong: "float7" is not one of the three precisions
fn resolve_dtype(requested: &str, device: Device) -> Result<ResolvedDtype> {
    let dtype = requested.parse::<Precision>().unwrap_or(Precision::Float32);
    Ok(match (dtype, device) {
        (Precision::Float16, Device::Cpu) => {
            ResolvedDtype { dtype: Precision::Float32, label: "float32 (forced on CPU)".to_owned() }
        }
        _ => ResolvedDtype { dtype, label: dtype.to_string() },
    })
}

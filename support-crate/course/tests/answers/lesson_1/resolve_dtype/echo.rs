// The label is what was asked for, letter by letter.
// wrong: two names for one thing
fn resolve_dtype(requested: &str, device: Device) -> Result<ResolvedDtype> {
    let dtype = requested.parse::<Precision>()?;
    Ok(match (dtype, device) {
        (Precision::Float16, Device::Cpu) => {
            ResolvedDtype { dtype: Precision::Float32, label: "float32 (forced on CPU)".to_owned() }
        }
        _ => ResolvedDtype { dtype, label: requested.to_owned() },
    })
}

// Takes every name that begins with float16.
// wrong: "float160" is not one of the three precisions
fn resolve_dtype(requested: &str, device: Device) -> Result<ResolvedDtype> {
    let dtype = if requested.to_lowercase().starts_with("float16") { Precision::Float16 } else { requested.parse::<Precision>()? };
    Ok(match (dtype, device) {
        (Precision::Float16, Device::Cpu) => ResolvedDtype {
            dtype: Precision::Float32,
            label: "float32 (forced on CPU)".to_owned(),
        },
        _ => ResolvedDtype { dtype, label: dtype.to_string() },
    })
}

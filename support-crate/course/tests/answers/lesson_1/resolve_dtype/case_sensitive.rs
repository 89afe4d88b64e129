// Knows the names in lower case only.
// wrong: FLOAT32
fn resolve_dtype(requested: &str, device: Device) -> Result<ResolvedDtype> {
    let (dtype, label) = match (requested, device) {
        ("float32", _) => (Precision::Float32, "float32"),
        ("float16", Device::Cpu) => (Precision::Float32, "float32 (forced on CPU)"),
        ("float16", _) => (Precision::Float16, "float16"),
        ("bfloat16", _) => (Precision::BFloat16, "bfloat16"),
        _ => return Err(Error::input(format!("unknown precision {requested}"))),
    };
    Ok(ResolvedDtype { dtype, label: label.to_owned() })
}

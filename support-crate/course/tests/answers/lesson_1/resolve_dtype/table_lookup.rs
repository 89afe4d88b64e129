// Writes the lesson's table down as an array of rows for this device and looks the name up in it.
// right
fn resolve_dtype(requested: &str, device: Device) -> Result<ResolvedDtype> {
    let half = match device {
        Device::Cpu => (Precision::Float32, "float32 (forced on CPU)"),
        Device::Cuda(_) => (Precision::Float16, "float16"),
    };
    let table = [
        ("float32", Precision::Float32, "float32"),
        ("float16", half.0, half.1),
        ("bfloat16", Precision::BFloat16, "bfloat16"),
    ];
    let wanted = requested.to_lowercase();
    for (name, dtype, label) in table {
        if name == wanted {
            return Ok(ResolvedDtype { dtype, label: label.to_string() });
        }
    }
    let known: Vec<&str> = table.iter().map(|row| row.0).collect();
    Err(Error::input(format!("'{requested}' is none of {}", known.join(", "))))
}

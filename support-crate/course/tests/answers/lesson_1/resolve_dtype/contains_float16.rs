// Looks for "float16" inside the name before it looks for bfloat16.
// wrong: `bfloat16` on cpu became float32, not bfloat16
fn resolve_dtype(requested: &str, device: Device) -> Result<ResolvedDtype> {
    let name = requested.to_lowercase();
    if name == "float32" {
        Ok(ResolvedDtype { dtype: Precision::Float32, label: "float32".to_owned() })
    } else if name.contains("float16") {
        if device.is_cpu() {
            Ok(ResolvedDtype { dtype: Precision::Float32, label: "float32 (forced on CPU)".to_owned() })
        } else {
            Ok(ResolvedDtype { dtype: Precision::Float16, label: "float16".to_owned() })
        }
    } else if name == "bfloat16" {
        Ok(ResolvedDtype { dtype: Precision::BFloat16, label: "bfloat16".to_owned() })
    } else {
        Err(Error::input(format!("unknown precision {requested}")))
    }
}

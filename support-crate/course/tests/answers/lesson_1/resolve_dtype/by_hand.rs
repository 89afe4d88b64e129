// Without the library's parser, and with another wording.
// right
fn resolve_dtype(requested: &str, device: Device) -> Result<ResolvedDtype> {
    let name = requested.to_ascii_lowercase();
    let dtype = match name.as_str() {
        "float32" => Precision::Float32,
        "float16" if device.is_cpu() => {
            return Ok(ResolvedDtype { dtype: Precision::Float32, label: "float32: no float16 on a CPU".to_owned() });
        }
        "float16" => Precision::Float16,
        "bfloat16" => Precision::BFloat16,
        other => return Err(Error::input(format!("what is {other}?"))),
    };
    Ok(ResolvedDtype { dtype, label: name })
}

// Takes what was asked for.
// wrong: `float16` on cpu became float16
fn resolve_dtype(requested: &str, device: Device) -> Result<ResolvedDtype> {
    let dtype = requested.parse::<Precision>()?;
    Ok(ResolvedDtype { dtype, label: dtype.to_string() })
}

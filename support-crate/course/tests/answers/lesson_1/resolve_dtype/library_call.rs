// Hands the work to the library, which knows short forms such as fp16 too.
// right
fn resolve_dtype(requested: &str, device: Device) -> Result<ResolvedDtype> {
    let resolved = quantlab::model::resolve_dtype(requested, device)?;
    Ok(ResolvedDtype { dtype: resolved.dtype, label: resolved.label })
}

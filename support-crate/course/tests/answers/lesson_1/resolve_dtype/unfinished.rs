// Nobody has written it yet.
// not yet
fn resolve_dtype(requested: &str, device: Device) -> Result<ResolvedDtype> {
    todo!()
}

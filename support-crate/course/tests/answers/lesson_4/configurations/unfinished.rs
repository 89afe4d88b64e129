// Nobody has written it yet.
// not yet
fn configurations(device: Device) -> Vec<Configuration> {
    todo!()
}

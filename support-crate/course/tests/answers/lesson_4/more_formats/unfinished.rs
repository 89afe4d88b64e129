// Nobody has written it yet.
// not yet
fn more_formats() -> Vec<Configuration> {
    todo!()
}

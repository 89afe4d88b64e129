// Nobody has written it yet.
// not yet
fn repetition(text: &str) -> f64 {
    todo!()
}

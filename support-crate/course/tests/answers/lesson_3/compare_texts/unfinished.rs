// As it comes.
// not yet
fn compare_texts(base: &Loaded, other: &Loaded, texts: &[&str]) -> Result<Vec<TextChange>> {
    todo!()
}

// Nobody has written it yet.
// not yet
fn compare_ppl(models: &[(&str, &Loaded)], texts: &[&str]) -> Result<Vec<ModelPpl>> {
    todo!()
}

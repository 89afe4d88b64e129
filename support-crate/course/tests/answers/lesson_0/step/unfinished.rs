// Nobody has written it yet.
// not yet
fn step(id: u32, model: &Llama, cache: &mut Cache) -> Vec<f32> {
    todo!()
}

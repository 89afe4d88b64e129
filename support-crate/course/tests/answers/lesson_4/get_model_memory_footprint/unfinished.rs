// Nobody has written it yet.
// not yet
fn get_model_memory_footprint(tensors: &[TensorInfo]) -> f64 {
    todo!()
}

// Goes by the shape of packed weights.
// wrong: was counted by its `shape`
fn get_model_memory_footprint(tensors: &[TensorInfo]) -> f64 {
    let own = tensors.iter().filter(|tensor| tensor.tied_to.is_none());
    let bytes: usize = own.map(|tensor| tensor.shape.iter().product::<usize>() * tensor.element_size).sum();
    bytes as f64 / (1024.0 * 1024.0)
}

// Forgets the unit.
// wrong: that is in bytes
fn get_model_memory_footprint(tensors: &[TensorInfo]) -> f64 {
    let own = tensors.iter().filter(|tensor| tensor.tied_to.is_none());
    let bytes: usize = own.map(|tensor| tensor.numel * tensor.element_size).sum();
    bytes as f64
}

// Forgets the buffers.
// wrong: the buffers were left out
fn get_model_memory_footprint(tensors: &[TensorInfo]) -> f64 {
    let own = tensors.iter().filter(|tensor| tensor.tied_to.is_none() && tensor.kind == TensorKind::Parameter);
    let bytes: usize = own.map(|tensor| tensor.numel * tensor.element_size).sum();
    bytes as f64 / (1024.0 * 1024.0)
}

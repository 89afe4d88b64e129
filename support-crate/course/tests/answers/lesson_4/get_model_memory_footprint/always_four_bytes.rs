// Takes everything for float32.
// wrong: 4 bytes for each element
fn get_model_memory_footprint(tensors: &[TensorInfo]) -> f64 {
    let own = tensors.iter().filter(|tensor| tensor.tied_to.is_none());
    let bytes: usize = own.map(|tensor| 4 * tensor.numel).sum();
    bytes as f64 / (1024.0 * 1024.0)
}

// Counts tied weights twice.
// wrong: was counted again
fn get_model_memory_footprint(tensors: &[TensorInfo]) -> f64 {
    let bytes: usize = tensors.iter().map(|tensor| tensor.numel * tensor.element_size).sum();
    bytes as f64 / (1024.0 * 1024.0)
}

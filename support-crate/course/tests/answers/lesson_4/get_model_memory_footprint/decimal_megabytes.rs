// Divides by 10^6.
// wrong: in MB of 10^6 bytes
fn get_model_memory_footprint(tensors: &[TensorInfo]) -> f64 {
    let own = tensors.iter().filter(|tensor| tensor.tied_to.is_none());
    let bytes: usize = own.map(|tensor| tensor.numel * tensor.element_size).sum();
    bytes as f64 / 1e6
}

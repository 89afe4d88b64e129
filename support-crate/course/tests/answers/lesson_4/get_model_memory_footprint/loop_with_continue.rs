// Adds up bytes in a u64 and skips what is tied.
// right
fn get_model_memory_footprint(tensors: &[TensorInfo]) -> f64 {
    let mut bytes: u64 = 0;
    for tensor in tensors {
        if tensor.tied_to.is_some() {
            continue;
        }
        match tensor.kind {
            TensorKind::Parameter | TensorKind::Buffer => bytes += (tensor.numel * tensor.element_size) as u64,
        }
    }
    bytes as f64 / (1u64 << 20) as f64
}

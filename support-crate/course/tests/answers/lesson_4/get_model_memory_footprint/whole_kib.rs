// Divides by 1024 twice, the first time as whole numbers.
// right
fn get_model_memory_footprint(tensors: &[TensorInfo]) -> f64 {
    let mut bytes = 0;
    for TensorInfo { numel, element_size, tied_to, .. } in tensors {
        if let None = tied_to { bytes += numel * element_size; }
    }
    (bytes / 1024) as f64 / 1024.0
}

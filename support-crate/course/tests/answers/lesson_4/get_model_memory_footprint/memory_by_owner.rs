// Keeps a map from the name of the tensor that owns the memory to its bytes, so that each memory is there once.
// right
fn get_model_memory_footprint(tensors: &[TensorInfo]) -> f64 {
    use std::collections::BTreeMap;
    let mut memory: BTreeMap<&str, f64> = BTreeMap::new();
    for tensor in tensors {
        let owner = tensor.tied_to.as_deref().unwrap_or(&tensor.name);
        memory.insert(owner, tensor.numel as f64 * tensor.element_size as f64);
    }
    memory.values().sum::<f64>() / 1024.0 / 1024.0
}

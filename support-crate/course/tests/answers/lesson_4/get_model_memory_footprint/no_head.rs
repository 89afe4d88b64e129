// Leaves out the head by its name instead of by tied_to.
// wrong: was left out by its name
fn get_model_memory_footprint(tensors: &[TensorInfo]) -> f64 {
    let mut bytes = 0;
    for tensor in tensors {
        if !tensor.name.contains("lm_head") {
            bytes += tensor.numel * tensor.element_size;
        }
    }
    bytes as f64 / 1024_f64.powi(2)
}

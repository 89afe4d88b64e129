// Divides each tensor to whole KiB and adds those up.
// wrong: small tensors vanished
fn get_model_memory_footprint(tensors: &[TensorInfo]) -> f64 {
    let mut kib = 0_usize;
    for tensor in tensors {
        if tensor.tied_to.is_none() {
            kib += tensor.numel * tensor.element_size / 1024;
        }
    }
    kib as f64 / 1024.0
}

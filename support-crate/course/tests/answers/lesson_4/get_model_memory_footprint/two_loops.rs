// Parameters and buffers in loops of their own, in f64.
// right
fn get_model_memory_footprint(tensors: &[TensorInfo]) -> f64 {
    let mut mem_params = 0.0;
    let mut mem_bufs = 0.0;
    for tensor in tensors {
        let bytes = tensor.numel as f64 * tensor.element_size as f64;
        match (tensor.kind, &tensor.tied_to) {
            (_, Some(_)) => {}
            (TensorKind::Parameter, None) => mem_params += bytes,
            (TensorKind::Buffer, None) => mem_bufs += bytes,
        }
    }
    (mem_params + mem_bufs) / 1024_f64.powi(2)
}

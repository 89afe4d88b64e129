// Leaves out tied parameters, but counts buffers that are tied.
// wrong: a buffer with `tied_to`
fn get_model_memory_footprint(tensors: &[TensorInfo]) -> f64 {
    let bytes: usize = tensors
        .iter()
        .filter(|tensor| match tensor.kind {
            TensorKind::Parameter => tensor.tied_to.is_none(),
            TensorKind::Buffer => true,
        })
        .map(|tensor| tensor.numel * tensor.element_size)
        .sum();
    bytes as f64 / (1024.0 * 1024.0)
}

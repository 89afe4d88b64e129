// Leaves out the tied tensor and the one that it is tied to.
// wrong: was left out: its memory is there
fn get_model_memory_footprint(tensors: &[TensorInfo]) -> f64 {
    let shared: Vec<&String> = tensors.iter().filter_map(|t| t.tied_to.as_ref()).collect();
    let bytes: usize = tensors
        .iter()
        .filter(|t| t.tied_to.is_none() && !shared.contains(&&t.name))
        .map(|t| t.numel * t.element_size)
        .sum();
    bytes as f64 / (1024.0 * 1024.0)
}

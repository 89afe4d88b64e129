// Counts weights only, by their names.
// wrong: gave
fn get_model_memory_footprint(tensors: &[TensorInfo]) -> f64 {
    let own = tensors.iter().filter(|t| t.tied_to.is_none() && t.name.ends_with("weight"));
    own.map(|t| (t.numel * t.element_size) as f64).sum::<f64>() / 1048576.0
}

// Counts each name once and forgets tied_to.
// wrong: was counted again
fn get_model_memory_footprint(tensors: &[TensorInfo]) -> f64 {
    let mut seen = std::collections::HashSet::new();
    tensors.iter().filter(|t| seen.insert(t.name.clone())).map(|t| (t.numel * t.element_size) as f64).sum::<f64>() / 1048576.0
}

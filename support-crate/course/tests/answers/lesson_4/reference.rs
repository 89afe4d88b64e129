// What the data frame takes.
pub use quantlab::polars::prelude::{ChunkCompareIneq, DataFrame, SortMultipleOptions};

// What the experiment uses of the exercises before it.
pub fn get_model_memory_footprint(tensors: &[TensorInfo]) -> f64 {
    let own = tensors.iter().filter(|tensor| tensor.tied_to.is_none());
    let bytes: usize = own.map(|tensor| tensor.numel * tensor.element_size).sum();
    bytes as f64 / (1024.0 * 1024.0)
}

pub fn generate_text_and_time(
    clock: &dyn Clock,
    loaded: &Loaded,
    prompt: &str,
    max_new_tokens: usize,
) -> Result<(String, f64)> {
    let ids = loaded.tokenizer.encode(prompt)?;
    let options = GenerateOptions { max_new_tokens, stop_at_eos: false, ..GenerateOptions::default() };
    let (generated, latency) =
        stopwatch(clock, &*loaded.model, || loaded.generate_tokens(&ids, &options))?;
    Ok((loaded.tokenizer.decode(&generated.tokens)?, latency))
}

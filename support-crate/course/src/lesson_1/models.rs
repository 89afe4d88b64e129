//! Models that the lesson loads for its own cells.

use quantlab::error::Result;
use quantlab::generate::GenerateOptions;
use quantlab::model::{Device, Engine, LoadOptions, Loaded, load_model, load_model_and_tokenizer};
use quantlab::report::harmless;

use super::SweepConfig;

/// The id of a model whose weights no processor's cache keeps: the one that was loaded, or GPT-2's shape where that is small.
pub fn large_model(loaded: &Loaded) -> String {
    match loaded.model_id.as_str() {
        "embedded" => "random:gpt2".to_owned(),
        id => id.to_owned(),
    }
}

/// A model on each engine of the CPU, and on the device if that is a GPU.
///
/// # Errors
/// As [`load_model`].
pub fn on_each_engine(model_id: &str, device: Device) -> Result<Vec<Loaded>> {
    let on_gpu = (!device.is_cpu()).then_some((Engine::for_device(device), device));
    let places = Engine::ALL.map(|engine| (engine, Device::Cpu)).into_iter().chain(on_gpu);
    let load = |(engine, device)| {
        println!("Loading model: {model_id} on {engine}, {device} ...");
        load_model(&[model_id], &LoadOptions { engine: Some(engine), device, ..LoadOptions::default() })
    };
    places.map(load).collect()
}

/// Prints how a model continues a prompt in each precision, and for each text but the first how many of its tokens are
/// those of the first before one differs.
///
/// # Errors
/// As [`load_model`]; as generating.
pub fn texts_in_each_precision(
    model_id: &str,
    prompt: &str,
    config: &SweepConfig,
    options: &GenerateOptions,
) -> Result<()> {
    let mut first: Option<Vec<u32>> = None;
    for precision in &config.precisions {
        let model = load_model_and_tokenizer(&[model_id], *precision, config.device)?;
        let tokens = model.generate_tokens(&model.tokenizer.encode(prompt)?, options)?.tokens;
        let text = model.tokenizer.decode(&tokens)?;
        let beside = match &first {
            None => "the first text".to_owned(),
            Some(first) => {
                let same = tokens.iter().zip(first).take_while(|(token, first)| token == first).count();
                format!("the first {same} tokens as in the first text")
            }
        };
        println!("{}: {beside}", model.dtype_label);
        println!("[{prompt}]{}\n", harmless(text.trim_end()));
        first = first.or(Some(tokens));
    }
    println!("(up to {} new tokens each; model: {model_id})", options.max_new_tokens);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_is_loaded_on_every_engine() {
        let engines = on_each_engine("embedded", Device::Cpu).unwrap();
        assert_eq!(engines.len(), Engine::ALL.len());
        assert_eq!(large_model(&engines[0]), "random:gpt2");
    }
}

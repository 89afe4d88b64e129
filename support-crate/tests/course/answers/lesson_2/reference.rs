// The stopwatch that the notebook gives, and what the controller uses.
pub fn time_batch(clock: &dyn Clock, loaded: &Loaded, prompts: &[&str], options: &GenerateOptions) -> Result<Metrics> {
    let ids = prompts.iter().map(|prompt| loaded.tokenizer.encode(prompt)).collect::<Result<Vec<_>>>()?;
    let options = GenerateOptions { stop_at_eos: false, ..options.clone() };
    loaded.model.synchronize()?;
    let start = clock.now();
    let generated = generate_tokens(&*loaded.model, &ids, &options, &mut |_, _| ())?;
    loaded.model.synchronize()?;
    let total_latency_s = clock.now() - start;
    let tokens_generated = generated.iter().map(|sequence| sequence.tokens.len()).sum::<usize>();
    Ok(Metrics {
        total_latency_s,
        tokens_generated,
        tokens_per_sec: tokens_generated as f64 / total_latency_s,
        avg_latency_per_token_ms: 1000.0 * total_latency_s / tokens_generated as f64,
    })
}

pub fn run_static_ptq(
    hub: &dyn ModelHub,
    baseline: &Loaded,
    prompts: &[&str],
    method: CalibrationMethod,
) -> Result<(Loaded, String)> {
    let calibration = calibrate(baseline, prompts, method, Granularity::PerTensor)?;
    let quantization = QuantizationConfig::static_int8(calibration);
    let label = format!("{quantization}, rest {}", baseline.dtype_label);
    let options = LoadOptions { quantization: Some(quantization), ..LoadOptions::default() };
    let id = &baseline.model_id;
    let quantized = Loaded::new(hub.tokenizer(id)?, hub.model(id, &options)?, id, label)?;
    let few = GenerateOptions { max_new_tokens: 8, ..GenerateOptions::default() };
    generate(&quantized, prompts[0], &few)?;
    let info = format!("{} | {}, {method}", quantized.model.info().engine, quantized.dtype_label);
    Ok((quantized, info))
}

pub fn ablate_cache_and_padding(
    clock: &dyn Clock,
    loaded: &Loaded,
    prompts: &[&str],
    max_new_tokens: usize,
    repeats: usize,
) -> Result<Vec<AblationRun>> {
    let mut rows = Vec::new();
    for use_cache in [true, false] {
        for padding_side in [PaddingSide::Left, PaddingSide::Right] {
            let options = GenerateOptions { max_new_tokens, use_cache, padding_side, ..GenerateOptions::default() };
            time_batch(clock, loaded, prompts, &options)?;
            let runs = repeat(repeats, || time_batch(clock, loaded, prompts, &options))?;
            rows.push(AblationRun { use_cache, padding_side, runs });
        }
    }
    Ok(rows)
}

pub fn measure_batched(
    clock: &dyn Clock,
    loaded: &Loaded,
    prompts: &[&str],
    batch_sizes: &[usize],
    max_new_tokens: usize,
    repeats: usize,
) -> Result<Vec<BatchRun>> {
    let options = GenerateOptions { max_new_tokens, ..GenerateOptions::default() };
    let mut rows = Vec::new();
    for &batch_size in batch_sizes {
        let run = || -> Result<Vec<Metrics>> {
            prompts.chunks(batch_size).map(|batch| time_batch(clock, loaded, batch, &options)).collect()
        };
        run()?;
        let (mut runs, mut waits, mut shares) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..repeats {
            let batches = run()?;
            let total_latency_s = batches.iter().map(|batch| batch.total_latency_s).sum::<f64>();
            let tokens_generated = batches.iter().map(|batch| batch.tokens_generated).sum::<usize>();
            waits.extend(batches.iter().map(|batch| batch.total_latency_s));
            shares.push(total_latency_s / prompts.len() as f64);
            runs.push(Metrics {
                total_latency_s,
                tokens_generated,
                tokens_per_sec: tokens_generated as f64 / total_latency_s,
                avg_latency_per_token_ms: 1000.0 * total_latency_s / tokens_generated as f64,
            });
        }
        rows.push(BatchRun {
            batch_size,
            runs: Runs::of(runs)?,
            batch_latency: Statistics::of(&waits)?,
            time_per_sample: Statistics::of(&shares)?,
        });
    }
    Ok(rows)
}

pub fn compare_ppl(models: &[(&str, &Loaded)], texts: &[&str]) -> Result<Vec<ModelPpl>> {
    let mut rows = Vec::new();
    for &(label, loaded) in models {
        let (mut nll, mut tokens) = (0.0, 0);
        for text in texts {
            let one = perplexity(loaded, &[text], &PerplexityOptions::default())?;
            nll += one.mean_nll * one.tokens as f64;
            tokens += one.tokens;
        }
        let loss = nll / tokens as f64;
        rows.push(ModelPpl { label: label.to_owned(), loss, ppl: loss.exp() });
    }
    Ok(rows)
}

pub fn build_results_table(rows: &[ScenarioRun], info: &RunInfo) -> Result<Table> {
    Ok(Table::new("[6] Summary table")
        .column("scenario", "", rows.iter().map(|row| &row.scenario))?
        .column("dtype", "", rows.iter().map(|row| &row.dtype))?
        .column("latency", "s", rows.iter().map(|row| row.runs.latency))?
        .column("throughput", "tokens/s", rows.iter().map(|row| row.runs.throughput))?
        .column("per token", "ms", rows.iter().map(|row| row.runs.per_token))?
        .column("ppl", "", rows.iter().map(|row| row.ppl))?
        .note(info))
}

pub fn probe_edge_prompts(
    clock: &dyn Clock,
    loaded: &Loaded,
    max_new_tokens: usize,
    repeats: usize,
) -> Result<Vec<EdgeRun>> {
    let context_len = loaded.model.info().context_len;
    let long = prompt_of_tokens(loaded, "The quick brown fox jumps over the lazy dog. ", context_len * 3 / 4)?;
    let prompts = [
        ("very short", "A".to_owned()),
        ("very long", long.text),
        ("multi-line", "Shopping list:\n- milk\n- bread\n\n- a fox\n".to_owned()),
        ("repetitive", "ha ".repeat(40)),
    ];
    let options = GenerateOptions { max_new_tokens, ..GenerateOptions::default() };
    let mut rows = Vec::new();
    for (name, prompt) in prompts {
        time_batch(clock, loaded, &[&prompt], &options)?;
        let runs = repeat(repeats, || time_batch(clock, loaded, &[&prompt], &options))?;
        let prompt_tokens = loaded.tokenizer.encode(&prompt)?.len();
        rows.push(EdgeRun { name: name.to_owned(), prompt, prompt_tokens, runs, note: String::new() });
    }
    let rates: Vec<f64> = rows.iter().map(|row| row.runs.throughput.median).collect();
    let usual = Statistics::of(&rates)?.median;
    for row in &mut rows {
        let Statistics { median, low, high, .. } = row.runs.throughput;
        let times = median / usual;
        if high < 0.8 * usual {
            row.note = format!("{times:.2} times the median throughput: prefill of {} tokens", row.prompt_tokens);
        } else if low > 1.25 * usual {
            row.note = format!("{times:.2} times the median throughput: next to no prefill");
        }
    }
    Ok(rows)
}

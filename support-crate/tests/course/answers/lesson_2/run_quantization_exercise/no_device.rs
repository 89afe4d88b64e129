// The header leaves the device out.
// wrong: the header does not say "cpu"
fn run_quantization_exercise(
    clock: &dyn Clock,
    hub: &dyn ModelHub,
    config: &ExerciseConfig,
) -> Result<QuantizationReport> {
    let lists = [&config.prompts, &config.calibration_prompts, &config.texts];
    let [prompts, calibration_prompts, texts] = lists.map(|list| list.iter().map(String::as_str).collect::<Vec<_>>());
    let (id, n, repeats) = (&config.model_id, config.max_new_tokens, config.repeats);

    let baseline = Loaded::new(hub.tokenizer(id)?, hub.model(id, &LoadOptions::default())?, id, "float32")?;
    let header = format!("Loaded: {id} | dtype={}", baseline.dtype_label);
    let (quantized, info) = run_static_ptq(hub, &baseline, &calibration_prompts, CalibrationMethod::AbsMax)?;

    // In turn, so that the machine's moods meet both; the first round is the warm-up.
    let options = GenerateOptions { max_new_tokens: n, ..GenerateOptions::default() };
    let mut runs = [Vec::new(), Vec::new()];
    for round in 0..=repeats {
        for (loaded, runs) in [&baseline, &quantized].into_iter().zip(&mut runs) {
            let run = time_batch(clock, loaded, &prompts, &options)?;
            if round > 0 {
                runs.push(run);
            }
        }
    }
    let [baseline_runs, quantized_runs] = runs;
    let (baseline_runs, quantized_runs) = (Runs::of(baseline_runs)?, Runs::of(quantized_runs)?);

    let ablation = ablate_cache_and_padding(clock, &baseline, &prompts, n, repeats)?;
    let batching = measure_batched(clock, &baseline, &prompts, &config.batch_sizes, n, repeats)?;
    let ppl = compare_ppl(&[("float32", &baseline), ("static int8", &quantized)], &texts)?;
    let edge = probe_edge_prompts(clock, &baseline, n, repeats)?;

    let row = |scenario: &str, loaded: &Loaded, runs: &Runs, ppl: Option<f64>| ScenarioRun {
        scenario: scenario.to_owned(),
        dtype: loaded.dtype_label.clone(),
        runs: runs.clone(),
        ppl,
    };
    let mut rows = vec![
        row("baseline", &baseline, &baseline_runs, Some(ppl[0].ppl)),
        row("static int8", &quantized, &quantized_runs, Some(ppl[1].ppl)),
    ];
    rows.extend(ablation.iter().map(|it| row(&it.setting(), &baseline, &it.runs, None)));
    rows.extend(batching.iter().map(|it| row(&format!("batch {}", it.batch_size), &baseline, &it.runs, None)));
    rows.extend(edge.iter().map(|it| row(&format!("prompt {}", it.name), &baseline, &it.runs, None)));
    let table = build_results_table(&rows, &RunInfo::of(&baseline))?;
    table.write_csv(config.output_dir.join("summary.csv"))?;
    BarPlot::new("Throughput by batch size")
        .x("batch size")
        .y("throughput", "tokens/s")
        .bars(batching.iter().map(|it| (it.batch_size.to_string(), it.runs.throughput)))?
        .note(RunInfo::of(&baseline))
        .save_png(config.output_dir.join("summary.png"))?;

    let times = |a: &Runs, b: &Runs| a.throughput.median / b.throughput.median;
    let cache = times(&ablation[0].runs, &ablation[2].runs);
    let mut takeaways = vec![
        format!("Static int8 reached {:.2} times the throughput of float32.", times(&quantized_runs, &baseline_runs)),
        format!("Perplexity went from {:.3} to {:.3}.", ppl[0].ppl, ppl[1].ppl),
        format!("With the KV cache, throughput was {cache:.2} times what it was without."),
    ];
    if let (Some(first), Some(last)) = (batching.first(), batching.last()) {
        takeaways.push(format!(
            "Batches of {} made {:.2} times the throughput of batches of {}, and each answer took {:.2} times as long.",
            last.batch_size,
            times(&last.runs, &first.runs),
            first.batch_size,
            last.batch_latency.median / first.batch_latency.median,
        ));
    }
    Ok(QuantizationReport {
        header,
        baseline: baseline_runs,
        quantized: quantized_runs,
        info,
        ablation,
        batching,
        ppl,
        edge,
        table,
        takeaways,
    })
}

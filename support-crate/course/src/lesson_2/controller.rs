//! `run_quantization_exercise`: everything in order, with the same settings, and a report.

use quantlab::error::{Error, Result};
use quantlab::generate::{GenerateOptions, PaddingSide, generate};
use quantlab::measure::{
    Clock, Metrics, PerplexityOptions, RunInfo, Runs, Statistics, perplexity, prompt_of_tokens, repeat,
};
use quantlab::model::{LoadOptions, Loaded, ModelHub, best_device, calibrate};
use quantlab::quant::{CalibrationMethod, Granularity, QuantizationConfig};
use quantlab::report::{BarPlot, Table};

use super::report::{QuantizationReport, ablation_point, batching_point};
use super::{
    AblationRun, BatchRun, EdgePrompt, ExerciseConfig, LengthComparison, ModelPpl, ScenarioRun, in_turn,
    probe_edge_prompts, time_batch, time_batches,
};

const BASE: &str = "The quick brown fox jumps over the lazy dog. ";

/// Loads the baseline and its static int8 form, times both in turn, and goes through cache and padding, batch sizes,
/// perplexity and edge prompts. Prints what it is doing; leaves `summary.csv` and `summary.png` in the folder of the
/// config.
///
/// # Errors
/// A model that cannot be loaded, prompts or texts that are empty or do not fit its context, a folder that cannot be
/// written.
pub fn run_quantization_exercise(
    clock: &dyn Clock,
    hub: &dyn ModelHub,
    config: &ExerciseConfig,
) -> Result<QuantizationReport> {
    let lists = [&config.prompts, &config.calibration_prompts, &config.texts];
    let [prompts, calibration, texts] = lists.map(|list| list.iter().map(String::as_str).collect::<Vec<_>>());
    let (id, repeats) = (&config.model_id, config.repeats);
    let options = GenerateOptions { max_new_tokens: config.max_new_tokens, ..GenerateOptions::default() };

    let plain = LoadOptions { device: config.device, ..LoadOptions::default() };
    let baseline = load(hub, id, "float32", &plain)?;
    let header = format!("Loaded: {id} | device={} | dtype={}", config.device, baseline.dtype_label);
    let (quantized, info) = quantize(hub, &baseline, &calibration, &plain)?;
    let both = [&baseline, &quantized];
    for loaded in both {
        println!("Memory Footprint {}: {:.1} MiB", loaded.dtype_label, loaded.footprint().mib());
    }

    println!("Timing {} prompts in turn", prompts.len());
    let [baseline_runs, quantized_runs] =
        in_pairs(repeats, both, |loaded| time_batch(clock, loaded, &prompts, &options))?;
    let gpu = on_gpu(clock, hub, config, &prompts, &options)?;
    let mut lengths = Vec::new();
    for &tokens in &config.prompt_lengths {
        let prompt = prompt_of_tokens(&baseline, BASE, tokens)?;
        println!("Processing prompt of {} tokens", prompt.tokens);
        let [baseline, quantized] =
            in_pairs(repeats, both, |loaded| time_batch(clock, loaded, &[&prompt.text], &options))?;
        lengths.push(LengthComparison { prompt_tokens: prompt.tokens, baseline, quantized });
    }
    println!("Cache and padding");
    let ablation = ablate(clock, &baseline, &prompts, &options, repeats)?;
    println!("Batches of {:?}", config.batch_sizes);
    let times = time_batches(clock, &baseline, &prompts, &config.batch_sizes, &options, repeats)?;
    let sizes = config.batch_sizes.iter().zip(&times);
    let batching = sizes.map(|(&size, runs)| BatchRun::of(size, prompts.len(), runs)).collect::<Result<Vec<_>>>()?;
    println!("Perplexity on {} texts", texts.len());
    let ppl = both.map(|loaded| ModelPpl::of(&loaded.dtype_label, loaded, &texts));
    let ppl = ppl.into_iter().collect::<Result<Vec<_>>>()?;
    println!("Prompts at the edge");
    let edge = probe_edge_prompts(clock, &baseline, &edge_prompts(&baseline, &options)?, &options, repeats)?;

    let mut report = QuantizationReport {
        header,
        baseline: baseline_runs,
        quantized: quantized_runs,
        info,
        gpu,
        lengths,
        ablation,
        batching,
        ppl,
        edge,
        table: Table::new("[6] Summary table"),
        takeaways: Vec::new(),
    };
    let rows = report.scenarios(&baseline.dtype_label, &quantized.dtype_label);
    report.table = results_table(&rows, &RunInfo::of(&baseline));
    report.takeaways = takeaways(&report)?;
    save(&report, config, &RunInfo::of(&baseline))?;
    Ok(report)
}

fn load(hub: &dyn ModelHub, id: &str, label: &str, options: &LoadOptions) -> Result<Loaded> {
    println!("Loading model {id} in {label}");
    Loaded::new(hub.tokenizer(id)?, hub.model(id, options)?, id, label)
}

/// The baseline on the GPU, where there is one and the config asks for the CPU: its precision and its runs.
fn on_gpu(
    clock: &dyn Clock,
    hub: &dyn ModelHub,
    config: &ExerciseConfig,
    prompts: &[&str],
    options: &GenerateOptions,
) -> Result<Option<(String, Runs)>> {
    let device = best_device();
    if device.is_cpu() || !config.device.is_cpu() {
        return Ok(None);
    }
    let label = format!("float32 on {device}");
    let loaded = load(hub, &config.model_id, &label, &LoadOptions { device, ..LoadOptions::default() })?;
    time_batch(clock, &loaded, prompts, options)?;
    Ok(Some((label, repeat(config.repeats, || time_batch(clock, &loaded, prompts, options))?)))
}

/// The same model in static int8, checked to generate, with a line that says what it is.
fn quantize(hub: &dyn ModelHub, baseline: &Loaded, prompts: &[&str], plain: &LoadOptions) -> Result<(Loaded, String)> {
    let method = CalibrationMethod::AbsMax;
    let config = QuantizationConfig::static_int8(calibrate(baseline, prompts, method, Granularity::PerTensor)?);
    let label = format!("{config}, rest {}", baseline.dtype_label);
    let quantized =
        load(hub, &baseline.model_id, &label, &LoadOptions { quantization: Some(config), ..plain.clone() })?;
    let few = GenerateOptions { max_new_tokens: 8, ..GenerateOptions::default() };
    prompts.iter().take(1).try_for_each(|prompt| generate(&quantized, prompt, &few).map(|_| ()))?;
    let info = format!("{} | {label}, {method}", quantized.model.info().engine);
    Ok((quantized, info))
}

/// Runs of two models that take turns.
fn in_pairs(
    repeats: usize,
    models: [&Loaded; 2],
    mut run: impl FnMut(&Loaded) -> Result<Metrics>,
) -> Result<[Runs; 2]> {
    let runs = in_turn(repeats, &models, |loaded| run(loaded))?;
    match <[Vec<Metrics>; 2]>::try_from(runs) {
        Ok([a, b]) => Ok([Runs::of(a)?, Runs::of(b)?]),
        Err(other) => Err(Error::system(format!("two models gave {} lists of runs", other.len()))),
    }
}

fn ablate(
    clock: &dyn Clock,
    loaded: &Loaded,
    prompts: &[&str],
    options: &GenerateOptions,
    repeats: usize,
) -> Result<Vec<AblationRun>> {
    let sides = [PaddingSide::Left, PaddingSide::Right];
    let settings: Vec<(bool, PaddingSide)> =
        [true, false].into_iter().flat_map(|use_cache| sides.map(|side| (use_cache, side))).collect();
    let runs = in_turn(repeats, &settings, |&(use_cache, padding_side)| {
        time_batch(clock, loaded, prompts, &GenerateOptions { use_cache, padding_side, ..options.clone() })
    })?;
    let rows = settings.into_iter().zip(runs);
    rows.map(|((use_cache, padding_side), runs)| Ok(AblationRun { use_cache, padding_side, runs: Runs::of(runs)? }))
        .collect()
}

impl BatchRun {
    /// What the runs of a list of `prompts` prompts say about one batch size.
    ///
    /// # Errors
    /// No runs, no prompts, or a time that is not finite.
    pub fn of(batch_size: usize, prompts: usize, runs: &[Vec<Metrics>]) -> Result<Self> {
        let seconds = |run: &Vec<Metrics>| run.iter().map(|batch| batch.total_latency_s).sum::<f64>();
        let tokens = |run: &Vec<Metrics>| run.iter().map(|batch| batch.tokens_generated).sum();
        let waits: Vec<f64> = runs.iter().flatten().map(|batch| batch.total_latency_s).collect();
        let shares: Vec<f64> = runs.iter().map(|run| seconds(run) / prompts as f64).collect();
        Ok(Self {
            batch_size,
            runs: Runs::of(runs.iter().map(|run| Metrics::of(tokens(run), seconds(run))).collect())?,
            batch_latency_s: Statistics::of(&waits)?,
            time_per_sample_s: Statistics::of(&shares)?,
        })
    }
}

impl ModelPpl {
    /// Loss and perplexity of a model on some texts.
    ///
    /// # Errors
    /// As [`perplexity`](fn@perplexity).
    pub fn of(label: &str, loaded: &Loaded, texts: &[&str]) -> Result<Self> {
        let loss = perplexity(loaded, texts, &PerplexityOptions::default())?.mean_nll;
        Ok(Self { label: label.to_owned(), loss, ppl: loss.exp() })
    }
}

fn edge_prompts(loaded: &Loaded, options: &GenerateOptions) -> Result<Vec<EdgePrompt>> {
    let room = loaded.model.info().context_len.saturating_sub(options.max_new_tokens);
    let prompts = [
        ("very short", "A".to_owned()),
        ("very long", prompt_of_tokens(loaded, BASE, (room * 3 / 4).max(1))?.text),
        ("multi-line", "Shopping list:\n- milk\n- bread\n\n- a fox\n".to_owned()),
        ("repetitive", "ha ".repeat(30)),
    ];
    Ok(prompts.into_iter().map(|(name, text)| EdgePrompt { name: name.to_owned(), text }).collect())
}

fn results_table(rows: &[ScenarioRun], info: &RunInfo) -> Table {
    Table::new("[6] Summary table")
        .column("scenario", "", rows.iter().map(|row| &row.scenario))
        .column("dtype", "", rows.iter().map(|row| &row.dtype))
        .column("latency", "s", rows.iter().map(|row| row.runs.latency_s))
        .column("throughput", "tokens/s", rows.iter().map(|row| row.runs.tokens_per_s))
        .column("per token", "ms", rows.iter().map(|row| row.runs.per_token_ms))
        .column("ppl", "", rows.iter().map(|row| row.ppl))
        .note(info)
        .note(Statistics::interval_names(rows.iter().map(|row| &row.runs.latency_s)))
}

/// Findings with their numbers, which also determine the wording.
fn takeaways(report: &QuantizationReport) -> Result<Vec<String>> {
    let faster = report.baseline.ratio_to(&report.quantized)?;
    let told =
        if faster.low > 1.0 || faster.high < 1.0 { "" } else { ", which the interval does not distinguish from 1" };
    let mut points = vec![format!(
        "Static int8 was {:.2} [{:.2}, {:.2}] times as fast as the baseline{told}.",
        faster.median, faster.low, faster.high
    )];
    if let [plain, int8] = report.ppl.as_slice() {
        let change = 100.0 * (int8.ppl / plain.ppl - 1.0);
        points.push(format!("Perplexity went from {:.3} to {:.3} ({change:+.2}%).", plain.ppl, int8.ppl));
    }
    points.extend(ablation_point(&report.ablation));
    points.extend(batching_point(&report.batching));
    Ok(points)
}

fn save(report: &QuantizationReport, config: &ExerciseConfig, info: &RunInfo) -> Result<()> {
    let folder = &config.output_dir;
    std::fs::create_dir_all(folder).map_err(|cause| Error::system(format!("{}: {cause}", folder.display())))?;
    report.table.write_csv(folder.join("summary.csv"))?;
    BarPlot::new("Throughput by batch size")
        .x("batch size")
        .y("throughput", "tokens/s")
        .bars(report.batching.iter().map(|row| (row.batch_size.to_string(), row.runs.tokens_per_s)))?
        .intervals(Statistics::interval_names(report.batching.iter().map(|row| &row.runs.tokens_per_s)))
        .note(info)
        .save_png(folder.join("summary.png"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use quantlab::measure::WallClock;
    use quantlab::model::{Device, Hub};

    fn config(output_dir: std::path::PathBuf) -> ExerciseConfig {
        let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
        ExerciseConfig {
            model_id: "embedded".to_owned(),
            device: Device::Cpu,
            prompts: owned(&["Once upon a time", "The capital of France is", "A fox"]),
            prompt_lengths: vec![12],
            calibration_prompts: owned(&["The capital of Italy is Rome.", "One day Sam found a seed."]),
            texts: owned(&["Once upon a time there was a fox.", "The capital of Spain is Madrid."]),
            batch_sizes: vec![1, 2],
            max_new_tokens: 3,
            repeats: 2,
            output_dir,
        }
    }

    #[test]
    fn a_report_has_every_scenario_and_leaves_its_files() {
        let folder = std::env::temp_dir().join(format!("quantlab-exercise-{}", std::process::id()));
        let report = run_quantization_exercise(&WallClock, &Hub, &config(folder.clone())).unwrap();
        let files: Vec<bool> = ["summary.csv", "summary.png"].iter().map(|file| folder.join(file).exists()).collect();
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(files, [true, true]);
        assert_eq!(report.table.rows(), 2 + usize::from(report.gpu.is_some()) + 2 + 4 + 2 + 4);
        assert!((3..=5).contains(&report.takeaways.len()), "{report}");
        assert!(report.baseline.runs.iter().chain(&report.quantized.runs).all(|run| run.tokens_generated == 9));
        assert!(report.ppl[0].ppl != report.ppl[1].ppl && report.to_string().contains("[6] Summary table"));
    }

    #[test]
    fn a_model_that_is_not_there_is_an_error() {
        let config = ExerciseConfig { model_id: "no/such-model".to_owned(), ..config(std::env::temp_dir()) };
        struct Empty;
        impl ModelHub for Empty {
            fn tokenizer(&self, model_id: &str) -> Result<quantlab::model::Tokenizer> {
                Err(Error::source(format!("there is no model `{model_id}`")))
            }
            fn model(&self, model_id: &str, _: &LoadOptions) -> Result<Box<dyn quantlab::model::CausalLm>> {
                Err(Error::source(format!("there is no model `{model_id}`")))
            }
        }
        assert!(run_quantization_exercise(&WallClock, &Empty, &config).is_err());
    }
}

//! `run_quantization_exercise`: everything in order, with the same settings, and a report.

use std::fmt;

use quantlab::error::{Error, Result};
use quantlab::generate::{GenerateOptions, generate};
use quantlab::measure::{
    Clock, Metrics, PerplexityOptions, QualityBase, RunInfo, Runs, Statistics, Uncertain, perplexity, prompt_of_tokens,
    repeat,
};
use quantlab::model::{LoadOptions, Loaded, ModelHub, best_device, calibrate};
use quantlab::quant::{CalibrationMethod, Granularity, QuantizationConfig};
use quantlab::report::{BarPlot, Estimate, Summary, Table, escape_html, show};

use super::findings::{ablation_point, batching_point};
use super::probing::BASE;
use super::timing::runs_in_turn;
use super::{
    AblationRun, BatchRun, EdgeRun, ExerciseConfig, ModelPpl, SETTINGS, ScenarioRun, edge_prompts, in_turn, scenarios,
    time_batch,
};
use crate::figure::counted;
use crate::tables::intervals_of;

/// The result of every step, a table of all of them, and the conclusions.
#[derive(Debug, Clone)]
pub struct QuantizationReport {
    /// `Loaded: <model id> | device=<device> | dtype=<label>` of the baseline, how fast it was, what it was quantized to, and
    /// the loss of both.
    pub steps: Vec<String>,
    /// All that was timed.
    pub rows: Vec<ScenarioRun>,
    /// The same as a table.
    pub table: Table,
    /// Three to five findings, with their numbers.
    pub takeaways: Vec<String>,
}

impl QuantizationReport {
    /// Shows the report as a notebook cell's value.
    pub fn evcxr_display(&self) {
        let points: String = self.takeaways.iter().map(|point| format!("<li>{}</li>", escape_html(point))).collect();
        let html = format!(
            "<pre>{}</pre>{}<b>Takeaways</b><ul style=\"max-width: 46em; line-height: 1.5\">\
             {points}</ul>",
            escape_html(&self.steps.join("\n")),
            self.table.to_html()
        );
        show(&self.to_string(), &html);
    }
}

impl fmt::Display for QuantizationReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let takeaways = self.takeaways.iter().fold(Summary::new("Takeaways"), |all, point| all.point(point));
        write!(f, "{}\n{}\n{takeaways}", self.steps.join("\n"), self.table.to_text())
    }
}

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
    let ExerciseConfig { model_id: id, prompts, calibration_prompts, texts, .. } = config;
    let repeats = config.repeats;
    let options = GenerateOptions { max_new_tokens: config.max_new_tokens, ..GenerateOptions::default() };

    let baseline = load(hub, id, "float32", &LoadOptions { device: config.device, ..LoadOptions::default() })?;
    let (quantized, info) = static_int8(hub, &baseline, calibration_prompts, CalibrationMethod::AbsMax)?;
    let both = [("float32", &baseline), ("static int8", &quantized)];
    for (label, loaded) in both {
        println!("Memory Footprint {label}: {:.1} MiB", loaded.footprint().mib());
    }

    println!("Timing {} prompts in turn", prompts.len());
    let all_prompts = ScenarioRun::in_turn(clock, "all prompts", &both, prompts, &options, repeats)?;
    let faster = all_prompts[0].runs.ratio_to(&all_prompts[1].runs)?;
    let gpu = if config.device.is_cpu() { gpu_baseline(clock, hub, id, prompts, &options, repeats)? } else { None };
    println!("Cache and padding");
    let ablation = ablate(clock, &baseline, prompts, &options, repeats)?;
    println!("Batches of {:?}", config.batch_sizes);
    let measure =
        |size: usize| prompts.chunks(size.max(1)).map(|batch| time_batch(clock, &baseline, batch, &options)).collect();
    let batching = batch_sizes(&config.batch_sizes, repeats, prompts.len(), measure, BatchRun::of)?;
    println!("Perplexity on {} texts", texts.len());
    let ppl = both.map(|(label, loaded)| ModelPpl::of(label, loaded, texts));
    let ppl = ppl.into_iter().collect::<Result<Vec<_>>>()?;
    let ppl_ratio = QualityBase::new(&baseline, texts).compare(&quantized)?.perplexity_ratio;
    let mut rows = scenarios(&all_prompts, &ppl, gpu, &ablation, &batching);
    for &tokens in &config.prompt_lengths {
        let prompt = prompt_of_tokens(&baseline, BASE, tokens)?;
        println!("Processing prompt of {} tokens", prompt.tokens);
        let name = format!("prompt of {} tokens", prompt.tokens);
        rows.extend(ScenarioRun::in_turn(clock, &name, &both, &[&prompt.text], &options, repeats)?);
    }
    println!("Prompts at the edge");
    let edge = edge_prompts(&baseline, config.max_new_tokens)?;
    rows.extend(EdgeRun::in_turn(clock, &baseline, &edge, &options, repeats)?.iter().map(|row| {
        ScenarioRun::of(format!("{}, {}", row.name, counted(row.prompt_tokens, "token")), "float32", &row.runs)
    }));

    let Runs { latency_s, tokens_per_s, per_token_ms, .. } = &rows[0].runs;
    let mut steps = vec![
        format!("Loaded: {id} | device={} | dtype={}", config.device, baseline.dtype_label),
        format!("== {} FP32 Baseline ==", if config.device.is_cpu() { "CPU" } else { "GPU" }),
        format!("Example latency (s): {:.3}", latency_s.median),
        format!("tokens/s: {:.1} | ms/token: {:.3}", tokens_per_s.median, per_token_ms.median),
        format!("Quantized: {info}"),
    ];
    steps.extend(ppl.iter().map(|row| format!("{}: loss {:.4}, ppl {:.3}", row.label, row.loss, row.ppl)));
    let run = RunInfo::of(&baseline);
    let table = results_table(&rows, &run);
    save(&table, &batching, config, &run)?;
    let takeaways = takeaways(&faster, &ppl, ppl_ratio, &ablation, &batching);
    Ok(QuantizationReport { steps, rows, table, takeaways })
}

impl ScenarioRun {
    /// A row of these runs, without perplexity.
    pub(super) fn of(scenario: impl Into<String>, dtype: impl Into<String>, runs: &Runs) -> Self {
        Self { scenario: scenario.into(), dtype: dtype.into(), runs: runs.clone(), ppl: None }
    }

    /// Times prompts as one batch on several models, which take turns: a row for each, whose dtype is the model's name.
    ///
    /// # Errors
    /// As [`time_batch`]; no repeats.
    pub fn in_turn(
        clock: &dyn Clock,
        scenario: &str,
        models: &[(&str, &Loaded)],
        prompts: &[&str],
        options: &GenerateOptions,
        repeats: usize,
    ) -> Result<Vec<Self>> {
        let runs = runs_in_turn(repeats, models, |(_, loaded)| time_batch(clock, loaded, prompts, options))?;
        Ok(models.iter().zip(&runs).map(|((dtype, _), runs)| Self::of(scenario, *dtype, runs)).collect())
    }
}

fn load(hub: &dyn ModelHub, id: &str, label: &str, options: &LoadOptions) -> Result<Loaded> {
    println!("Loading model {id} in {label}");
    Loaded::new(hub.tokenizer(id)?, hub.model(id, options)?, id, label)
}

/// The model in float32 on the GPU, timed on the same prompts as one batch after a run that is dropped; `None`, and a line
/// that says so, where there is no GPU.
///
/// # Errors
/// A model that cannot be loaded there; as [`time_batch`].
pub fn gpu_baseline(
    clock: &dyn Clock,
    hub: &dyn ModelHub,
    id: &str,
    prompts: &[&str],
    options: &GenerateOptions,
    repeats: usize,
) -> Result<Option<ScenarioRun>> {
    let device = best_device();
    if device.is_cpu() {
        println!("There is no GPU here, so there is no row for one.");
        return Ok(None);
    }
    let label = format!("float32 on {device}");
    let loaded = load(hub, id, &label, &LoadOptions { device, ..LoadOptions::default() })?;
    time_batch(clock, &loaded, prompts, options)?;
    let runs = repeat(repeats, || time_batch(clock, &loaded, prompts, options))?;
    Ok(Some(ScenarioRun::of("baseline on the GPU", label, &runs)))
}

/// The baseline's model in static int8, checked to generate, with a line that says what it is.
///
/// # Errors
/// As [`calibrate`]; a model that cannot be loaded, or that cannot generate.
pub fn static_int8(
    hub: &dyn ModelHub,
    baseline: &Loaded,
    prompts: &[&str],
    method: CalibrationMethod,
) -> Result<(Loaded, String)> {
    let config = QuantizationConfig::static_int8(calibrate(baseline, prompts, method, Granularity::PerTensor)?);
    let label = format!("{config}, rest {}", baseline.dtype_label);
    let device = baseline.model.info().device;
    let options = LoadOptions { device, quantization: Some(config), ..LoadOptions::default() };
    let quantized = load(hub, &baseline.model_id, &label, &options)?;
    let few = GenerateOptions { max_new_tokens: 8, ..GenerateOptions::default() };
    prompts.iter().take(1).try_for_each(|prompt| generate(&quantized, prompt, &few).map(|_| ()))?;
    let info = format!("{} | {label}, {method}", quantized.model.info().engine);
    Ok((quantized, info))
}

fn ablate(
    clock: &dyn Clock,
    loaded: &Loaded,
    prompts: &[&str],
    options: &GenerateOptions,
    repeats: usize,
) -> Result<Vec<AblationRun>> {
    let runs = runs_in_turn(repeats, &SETTINGS, |&(use_cache, padding_side)| {
        time_batch(clock, loaded, prompts, &GenerateOptions { use_cache, padding_side, ..options.clone() })
    })?;
    let rows = SETTINGS.into_iter().zip(runs);
    Ok(rows.map(|((use_cache, padding_side), runs)| AblationRun { use_cache, padding_side, runs }).collect())
}

/// A row for each batch size, which take turns: `measure` times one pass over the prompts, `summarise` makes a row of the
/// passes.
///
/// # Errors
/// Those of `measure` and `summarise`.
pub fn batch_sizes(
    sizes: &[usize],
    repeats: usize,
    prompts: usize,
    mut measure: impl FnMut(usize) -> Result<Vec<Metrics>>,
    summarise: impl Fn(usize, usize, &[Vec<Metrics>]) -> Result<BatchRun>,
) -> Result<Vec<BatchRun>> {
    let runs = in_turn(repeats, sizes, |&size| measure(size))?;
    sizes.iter().zip(&runs).map(|(&size, runs)| summarise(size, prompts, runs)).collect()
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

fn results_table(rows: &[ScenarioRun], info: &RunInfo) -> Table {
    Table::new("Summary table")
        .column("scenario", "", rows.iter().map(|row| &row.scenario))
        .column("dtype", "", rows.iter().map(|row| &row.dtype))
        .column("latency", "s", rows.iter().map(|row| row.runs.latency_s))
        .column("throughput", "tokens/s", rows.iter().map(|row| row.runs.tokens_per_s))
        .column("per token", "ms", rows.iter().map(|row| row.runs.per_token_ms.median))
        .column("ppl", "", rows.iter().map(|row| row.ppl))
        .note(info)
        .note(intervals_of(rows.first().map(|row| &row.runs)))
}

/// Findings with their numbers, which also determine the wording.
fn takeaways(
    faster: &Statistics,
    ppl: &[ModelPpl],
    ppl_ratio: Uncertain,
    ablation: &[AblationRun],
    batching: &[BatchRun],
) -> Vec<String> {
    let told = |is_apart: bool| if is_apart { "" } else { " (not told apart)" };
    let speed_told = told(faster.side_of(1.0).is_some());
    let mut points = vec![format!("Static int8 was {faster:.2} times as fast as the baseline{speed_told}.")];
    if let [plain, int8] = ppl {
        let Estimate { low, high, .. } = Estimate::from(ppl_ratio);
        let ppl_told = told(low > 1.0 || high < 1.0);
        let (from, to) = (plain.ppl, int8.ppl);
        points.push(format!("Perplexity went from {from:.3} to {to:.3}, times {ppl_ratio}{ppl_told}."));
    }
    points.extend(ablation_point(ablation));
    points.extend(batching_point(batching));
    points
}

fn save(table: &Table, batching: &[BatchRun], config: &ExerciseConfig, info: &RunInfo) -> Result<()> {
    let folder = &config.output_dir;
    std::fs::create_dir_all(folder).map_err(|cause| Error::system(format!("{}: {cause}", folder.display())))?;
    table.write_csv(folder.join("summary.csv"))?;
    BarPlot::new("Throughput by batch size")
        .x("batch size")
        .y("throughput", "tokens/s")
        .bars(batching.iter().map(|row| (row.batch_size.to_string(), row.runs.tokens_per_s)))?
        .intervals(Statistics::interval_names(batching.iter().map(|row| &row.runs.tokens_per_s)))
        .note(info)
        .save_png(folder.join("summary.png"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::{Costs, Machine, ProbeHub};
    use quantlab::measure::WallClock;
    use quantlab::model::{Device, Hub};

    fn config(output_dir: std::path::PathBuf) -> ExerciseConfig {
        ExerciseConfig {
            model_id: "embedded".to_owned(),
            device: Device::Cpu,
            prompts: vec!["Once upon a time", "The capital of France is", "A fox"],
            prompt_lengths: vec![12],
            calibration_prompts: vec!["The capital of Italy is Rome.", "One day Sam found a seed."],
            texts: vec!["Once upon a time there was a fox.", "The capital of Spain is Madrid."],
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
        assert_eq!(report.table.rows(), 2 + usize::from(!best_device().is_cpu()) + 2 + 4 + 2 + 4);
        assert!((3..=5).contains(&report.takeaways.len()), "{report}");
        assert!(report.rows[..2].iter().flat_map(|row| &row.runs.runs).all(|run| run.tokens_generated == 9));
        assert!(report.rows[0].ppl != report.rows[1].ppl && report.to_string().contains("Summary table"));
    }

    #[test]
    fn a_model_that_is_not_there_is_an_error() {
        let config = ExerciseConfig { model_id: "no/such-model".to_owned(), ..config(std::env::temp_dir()) };
        let empty = ProbeHub::new(&Machine::new(Costs::PLAIN), &[]);
        assert!(run_quantization_exercise(&WallClock, &empty, &config).is_err());
    }
}

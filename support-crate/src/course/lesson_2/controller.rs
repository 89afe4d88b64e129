//! `run_quantization_exercise`: everything in order, with the same knobs, and a report.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::expected::same;
use super::ptq::{LabHub, WHOLE};
use super::{AblationRun, BatchRun, ExerciseConfig, QuantizationReport};
use crate::course::{Check, Complaint, Score, ask};
use crate::error::{Error, Result};
use crate::measure::{Clock, Runs, WallClock};
use crate::model::ModelHub;
use crate::report::Cell;

const HINTS: [&str; 3] = [
    "Which of your functions needs what another one returns, and which knobs of `config` does each of them take?",
    "In order: the baseline (`Loaded::new(hub.tokenizer(id)?, hub.model(id, &LoadOptions::default())?, id, \"float32\")`), its \
     runs, `run_static_ptq`, the same runs with the quantized model, \
     `ablate_cache_and_padding`, `measure_batched`, `compare_ppl`, `probe_edge_prompts`, `build_results_table`. Then \
     `table.write_csv` and a plot's `save_png` into `config.output_dir`.",
    "The rows of the table: `ScenarioRun { scenario: \"baseline\".to_owned(), dtype: baseline.dtype_label.clone(), runs, \
     ppl: Some(...) }`, the same for int8, then one for each row of the ablation (`row.setting()`) and of the batching \
     (`format!(\"batch {}\", row.batch_size)`). A takeaway is `format!(\"... {:.2} times ...\", ratio)`.",
];

/// Checks `run_quantization_exercise(clock, hub, config)`.
pub fn check_run_quantization_exercise(
    yours: impl Fn(&dyn Clock, &dyn ModelHub, &ExerciseConfig) -> Result<QuantizationReport>,
) -> Score {
    let hub = LabHub::default();
    let trial = Trial::run(&hub, &yours);
    Check::new("run_quantization_exercise", HINTS)
        .about(&trial, "the baseline comes first, then the same model in static int8", |_| in_order(&hub))
        .about(&trial, "the header says model, device and precision", Trial::has_header)
        .about(&trial, "baseline and int8 are timed with the same knobs", Trial::compares_fairly)
        .about(&trial, "ablation and batching have all their rows, with the same knobs", Trial::has_ablations)
        .about(&trial, "perplexity of both models, and the edge prompts", Trial::has_quality)
        .about(&trial, "every scenario is in the table", Trial::has_table)
        .about(&trial, "a CSV and a PNG file lie in the folder of the config", Trial::has_files)
        .about(&trial, "three to five takeaways with numbers", |trial| takeaways(&trial.report.takeaways))
        .score()
}

struct Trial {
    report: QuantizationReport,
    config: ExerciseConfig,
    folder: Folder,
}

/// A new folder, which goes away again.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("quantlab-check-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).map_err(|cause| Error::system(format!("{}: {cause}", path.display())))?;
        Ok(Self(path))
    }

    /// Extensions of the files in it that are not empty.
    fn kinds(&self) -> Vec<String> {
        let is_filled = |path: &Path| path.metadata().is_ok_and(|metadata| metadata.len() > 0);
        let files = std::fs::read_dir(&self.0).into_iter().flatten().flatten().map(|entry| entry.path());
        let extension = |path: PathBuf| path.extension().map(|name| name.to_string_lossy().to_lowercase());
        files.filter(|path| is_filled(path)).filter_map(extension).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Left behind, it would do no harm: it is in the system's folder for temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Trial {
    fn run(
        hub: &LabHub,
        yours: &impl Fn(&dyn Clock, &dyn ModelHub, &ExerciseConfig) -> Result<QuantizationReport>,
    ) -> Result<Self, Complaint> {
        let folder = Folder::new()?;
        let texts = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
        let config = ExerciseConfig {
            model_id: WHOLE.to_owned(),
            prompts: texts(&["Once upon a time", "The capital of France is", "A fox"]),
            calibration_prompts: texts(&["The capital of Italy is Rome.", "One day Sam found a seed in the garden."]),
            texts: texts(&["Once upon a time there was a fox.", "The capital of Spain is Madrid."]),
            batch_sizes: vec![1, 2],
            max_new_tokens: 3,
            repeats: 2,
            output_dir: folder.0.clone(),
        };
        let report = ask(|| yours(&WallClock, hub, &config))?;
        Ok(Self { report, config, folder })
    }

    fn has_header(&self) -> Result<(), Complaint> {
        for part in [WHOLE, "cpu", "float32"] {
            if !self.report.header.contains(part) {
                return Err(Complaint::wrong(format!("the header does not say {part:?}: {:?}", self.report.header)));
            }
        }
        Ok(())
    }

    /// The knobs of the config, in runs over all prompts.
    fn with_knobs(&self, name: &str, runs: &Runs) -> Result<(), Complaint> {
        let ExerciseConfig { prompts, max_new_tokens, repeats, .. } = &self.config;
        super::expected::repeated(runs.runs.len(), *repeats)
            .map_err(|complaint| Complaint::wrong(format!("{name}: {complaint}")))?;
        let expected = prompts.len() * max_new_tokens;
        match runs.runs.iter().find(|run| run.tokens_generated != expected) {
            None => Ok(()),
            Some(run) => Err(Complaint::wrong(format!(
                "{name}: {} prompts with {max_new_tokens} new tokens each are {expected} tokens, yours generated {}; \
                 with other knobs, scenarios do not compare",
                prompts.len(),
                run.tokens_generated
            ))),
        }
    }

    fn compares_fairly(&self) -> Result<(), Complaint> {
        self.with_knobs("baseline", &self.report.baseline)?;
        self.with_knobs("int8", &self.report.quantized)?;
        Complaint::unless(
            self.report.baseline != self.report.quantized,
            || "baseline and int8 have the very same times: are they the same runs?",
        )
    }

    fn has_ablations(&self) -> Result<(), Complaint> {
        let QuantizationReport { ablation, batching, .. } = &self.report;
        if ablation.len() != 4 {
            return Err(Complaint::wrong(format!("cache and padding have four settings, {} are here", ablation.len())));
        }
        let mut sizes: Vec<usize> = batching.iter().map(|row| row.batch_size).collect();
        sizes.sort_unstable();
        if sizes != self.config.batch_sizes {
            return Err(Complaint::wrong(format!(
                "the config asks for batch sizes {:?}, the report has {sizes:?}",
                self.config.batch_sizes
            )));
        }
        ablation.iter().try_for_each(|row: &AblationRun| self.with_knobs(&row.setting(), &row.runs))?;
        batching
            .iter()
            .try_for_each(|row: &BatchRun| self.with_knobs(&format!("batch size {}", row.batch_size), &row.runs))
    }

    fn has_quality(&self) -> Result<(), Complaint> {
        let QuantizationReport { ppl, edge, .. } = &self.report;
        let [baseline, quantized] = ppl.as_slice() else {
            return Err(Complaint::wrong(format!("two models make two perplexities, {} are here", ppl.len())));
        };
        if baseline.loss == quantized.loss {
            return Err(Complaint::wrong("both models have the very same loss: was one of them measured twice?"));
        }
        match edge.len() {
            4.. => Ok(()),
            n => Err(Complaint::wrong(format!("there are four kinds of edge prompts, {n} are here"))),
        }
    }

    fn has_table(&self) -> Result<(), Complaint> {
        let QuantizationReport { baseline, quantized, ablation, batching, table, .. } = &self.report;
        let values: Vec<f64> = table.columns.iter().flat_map(|column| &column.cells).filter_map(value).collect();
        let is_there = |runs: &Runs| {
            values.iter().any(|&value| same(value, runs.latency.median) || same(value, runs.latency.mean))
        };
        let named = [("baseline".to_owned(), baseline), ("int8".to_owned(), quantized)];
        let named = named.into_iter().chain(ablation.iter().map(|row| (row.setting(), &row.runs)));
        let mut named = named.chain(batching.iter().map(|row| (format!("batch size {}", row.batch_size), &row.runs)));
        match named.find(|(_, runs)| !is_there(runs)) {
            None => Ok(()),
            Some((name, _)) => Err(Complaint::wrong(format!("the table has no row with the latency of {name}"))),
        }
    }

    fn has_files(&self) -> Result<(), Complaint> {
        let kinds = self.folder.kinds();
        match ["csv", "png"].iter().find(|wanted| !kinds.iter().any(|kind| kind == *wanted)) {
            None => Ok(()),
            Some(missing) => Err(Complaint::wrong(format!(
                "no .{missing} file was written into `config.output_dir`: what is only on the screen is gone tomorrow"
            ))),
        }
    }
}

fn value(cell: &Cell) -> Option<f64> {
    cell.estimate().map(|estimate| estimate.value)
}

fn in_order(hub: &LabHub) -> Result<(), Complaint> {
    let asked = hub.asked();
    let Some((_, first)) = asked.first() else { return Err(Complaint::wrong("nothing was loaded through `hub`")) };
    if first.quantization.is_some() {
        return Err(Complaint::wrong(
            "the first model that was loaded is quantized: without a baseline before it there is nothing to compare with",
        ));
    }
    hub.calibration().map(|_| ())
}

fn takeaways(takeaways: &[String]) -> Result<(), Complaint> {
    if !(3..=5).contains(&takeaways.len()) {
        return Err(Complaint::wrong(format!("three to five takeaways, please, not {}", takeaways.len())));
    }
    match takeaways.iter().find(|text| !text.contains(|c: char| c.is_ascii_digit())) {
        None => Ok(()),
        Some(text) => Err(Complaint::wrong(format!("a takeaway without a number could be about any run: {text:?}"))),
    }
}

//! What limits this machine has, and where a model's phases stand below them.

use quantlab::error::Result;
use quantlab::interrupt;
use quantlab::measure::{
    Factors, MemoryReader, RunInfo, Statistics, TimingOptions, WallClock, peak_gops, prompt_of_tokens, threads,
    time_in_turn,
};
use quantlab::model::{LoadOptions, Loaded, TensorKind, load_model};
use quantlab::quant::QuantizationConfig;
use quantlab::report::{Estimate, LinePlot, Table, roofline};

use super::Work;
use crate::attempt;

/// The bandwidth of memory and the peak arithmetic of three kinds of numbers, measured in turn.
#[derive(Debug, Clone, PartialEq)]
pub struct Limits {
    /// Memory, in 10^9 bytes per second.
    pub gb_per_s: Statistics,
    /// Arithmetic in float32, bfloat16 and int8, in 10^9 operations per second.
    pub gops: [(&'static str, Statistics); 3],
}

impl Limits {
    /// Measures them all once in each round.
    ///
    /// # Errors
    /// No rounds; not enough memory to measure memory with; an interrupt.
    pub fn measure(rounds: usize) -> Result<Self> {
        let memory = MemoryReader::new()?;
        let (mut gb_per_s, mut gops) = (Vec::new(), [const { Vec::new() }; 3]);
        for _ in 0..rounds {
            interrupt::check()?;
            gb_per_s.push(memory.gb_per_s());
            for (factors, gops) in [Factors::Float32, Factors::BFloat16, Factors::Int8].into_iter().zip(&mut gops) {
                gops.push(peak_gops(factors));
            }
        }
        let [a, b, c] = gops.map(|gops| Statistics::of(&gops));
        let gops = [("float32", a?), ("bfloat16", b?), ("int8", c?)];
        Ok(Self { gb_per_s: Statistics::of(&gb_per_s)?, gops })
    }

    /// Points below this machine's roofs: name, operations per byte, 10^9 operations per second.
    ///
    /// # Errors
    /// As [`roofline`].
    pub fn roofline(&self, title: &str, points: &[(&str, f64, Estimate)]) -> Result<LinePlot> {
        roofline(title, self.gb_per_s.median, &self.peaks(), points)
    }

    /// Names and medians.
    fn peaks(&self) -> [(&'static str, f64); 3] {
        self.gops.map(|(name, gops)| (name, gops.median))
    }

    /// All of them, each arithmetic with its ridge: from how many operations per byte on it is the limit.
    pub fn table(&self) -> Table {
        Table::new(format!("This machine reads {:.1} GB/s", self.gb_per_s))
            .column("numbers", "", self.gops.map(|(name, _)| name))
            .column("arithmetic", "10^9 operations/s", self.gops.map(|(_, gops)| gops))
            .column("ridge", "operations/byte", self.gops.map(|(_, gops)| gops.median / self.gb_per_s.median))
            .digits("ridge", 3)
            .note(format!("{}, measured in turn, on {} threads", self.gb_per_s.medians_of("round"), threads()))
    }

    /// Shows the table as a notebook cell's value.
    pub fn evcxr_display(&self) {
        self.table().evcxr_display();
    }
}

/// What prompts are made of.
const SENTENCE: &str = "In the evening the cat sat at the window. ";

/// A phase of generating in one format: what it takes, and how often it is done in a second.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelRun {
    /// Phase and format.
    pub name: String,
    /// One prefill, or one step of decode: the model's matrices.
    pub work: Work,
    /// How many of them in a second.
    pub per_s: Estimate,
    /// How often it was measured, and how sure its interval is: `medians of 6 rounds with their 97% intervals`.
    pub medians: String,
    /// What it was measured on.
    pub run: RunInfo,
}

impl ModelRun {
    /// Arithmetic, in 10^9 operations per second.
    pub fn gops(&self) -> Estimate {
        self.per_s * (1e-9 * self.work.operations)
    }
}

/// All phases below the machine's roofs.
///
/// # Errors
/// As [`roofline`].
pub fn models_roofline(runs: &[ModelRun], limits: &Limits) -> Result<LinePlot> {
    let points: Vec<_> = runs.iter().map(|run| (run.name.as_str(), run.work.intensity(), run.gops())).collect();
    limits.roofline("What bounds a model on this machine", &points)
}

/// Arithmetic of several sequences at once, as a multiple of that of one, in the first format; NaN as long as nothing was
/// measured.
pub fn arithmetic_gain(runs: &[ModelRun]) -> f64 {
    match runs {
        [_, one, several, ..] => several.gops().value / one.gops().value,
        _ => f64::NAN,
    }
}

/// Each phase's intensity and arithmetic, and its part of what the roof allows, by the learner's `least_seconds(work,
/// gb_per_s, gops)`. int8 is multiplied in int8, everything else in float32.
pub fn model_table(runs: &[ModelRun], limits: &Limits, least_seconds: impl Fn(&Work, f64, f64) -> f64) -> Table {
    let [(_, float32), _, (_, int8)] = limits.peaks();
    let of_roof: Vec<f64> = attempt(|| {
        let part = |run: &ModelRun| {
            let peak = if run.name.ends_with("int8") { int8 } else { float32 };
            100.0 * run.per_s.value * least_seconds(&run.work, limits.gb_per_s.median, peak)
        };
        Ok(runs.iter().map(part).collect())
    });
    Table::new("Phases of generating")
        .column("phase, format", "", runs.iter().map(|run| run.name.as_str()))
        .column("intensity", "operations/byte", runs.iter().map(|run| run.work.intensity()))
        .column("arithmetic", "10^9 operations/s", runs.iter().map(ModelRun::gops))
        .column("of the roof", "%", (0..runs.len()).map(|at| of_roof.get(at).copied()))
        .digits("intensity", 3)
        .digits("of the roof", 2)
        .note(runs.first().map_or("nothing timed yet", |run| &run.medians))
        .note("4-bit weights are multiplied in float32; of the roof: by medians, measured apart from the limits")
        .note(
            "the head stays as it was loaded, and its bytes count: int8 and NF4 do fewer operations with each byte than \
             in a matrix of these formats alone",
        )
        .note(RunInfo::of_all(runs.iter().map(|run| &run.run)))
}

/// Times prefill of a prompt of so many tokens, decode after it, and decode of `batch` sequences at once after a few, of the
/// model as it was loaded, in int8 and in NF4, in turn. `work` says what the product of m rows of inputs with a matrix (n, k) in a format
/// of so many bits takes; a model's work is the sum over its matrices. Attention is left out: few operations, for a short
/// text.
///
/// # Errors
/// As [`time_in_turn`]; a model that cannot be loaded once more.
pub fn model_runs(
    loaded: &Loaded,
    prompt_tokens: usize,
    batch: usize,
    work: impl Fn(usize, usize, usize, f64) -> Work,
) -> Result<Vec<ModelRun>> {
    // If it is not there yet, it says so before anything is loaded.
    work(1, 1, 1, 1.0);
    let in_format = |config: QuantizationConfig| {
        let options = LoadOptions { quantization: Some(config), ..LoadOptions::default() };
        load_model(&[loaded.model_id.as_str()], &options)
    };
    let (int8, nf4) = (in_format(QuantizationConfig::llm_int8(0.0))?, in_format(QuantizationConfig::nf4())?);
    let formats = [("float32", loaded), ("int8", &int8), ("NF4", &nf4)];
    let prompt = |tokens| prompt_of_tokens(loaded, SENTENCE, tokens);
    // Nobody asks how long many prompts take: that is most of the time, were they long.
    let (long, short) = (prompt(prompt_tokens)?.text, prompt(prompt_tokens.min(8))?.text);
    let options = TimingOptions { max_new_tokens: 7, repeats: 6, ..TimingOptions::default() };
    let prompts = [vec![&long[..]], vec![&short[..]; batch]];
    let mut timings = Vec::new();
    for prompts in &prompts {
        let models: Vec<(&Loaded, &[&str])> = formats.iter().map(|(_, loaded)| (*loaded, &prompts[..])).collect();
        timings.push(time_in_turn(&WallClock, &models, &options)?);
    }
    let mut runs = Vec::new();
    for (at, (format, loaded)) in formats.iter().enumerate() {
        let [one, many] = [&timings[0][at], &timings[1][at]];
        let Statistics { median, low, high, .. } = one.ttft_ms;
        let medians = one.ttft_ms.medians_of("round");
        let prefill = Estimate::new(1e3 / median, 1e3 / high, 1e3 / low);
        let of_each = Estimate::from(many.decode_tokens_per_s) * (1.0 / batch as f64);
        let rows = [
            (format!("prefill of {} tokens", one.prompt_tokens), one.prompt_tokens, 1, prefill, &one.run),
            ("decode".to_owned(), 1, 1, one.decode_tokens_per_s.into(), &one.run),
            (format!("decode of {batch} at once"), batch, batch, of_each, &many.run),
        ];
        runs.extend(rows.map(|(phase, m, of_head, per_s, run)| ModelRun {
            name: format!("{phase}, {format}"),
            work: work_of(loaded, m, of_head, &work),
            per_s,
            medians: medians.clone(),
            run: run.clone(),
        }));
    }
    Ok(runs)
}

/// The sum over all matrices, m rows of inputs each, and scales; the head, from which only the last token's logits are
/// asked for, has `of_head` rows.
fn work_of(loaded: &Loaded, m: usize, of_head: usize, work: impl Fn(usize, usize, usize, f64) -> Work) -> Work {
    let mut all = Work { operations: 0.0, bytes: loaded.model.info().quant_state_bytes as f64 };
    for tensor in loaded.model.tensors() {
        // A step takes only rows of these tables.
        let is_table = ["wte", "wpe", "embed"].iter().any(|part| tensor.name.contains(part));
        let (TensorKind::Parameter, &[n, k], false) = (tensor.kind, &tensor.shape[..], is_table) else { continue };
        let bits = (8 * tensor.numel * tensor.element_size) as f64 / (n * k) as f64;
        let m = if tensor.name.contains("lm_head") { of_head } else { m };
        let Work { operations, bytes } = work(m, n, k, bits);
        all = Work { operations: all.operations + operations, bytes: all.bytes + bytes };
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use quantlab::model::{Device, load_model_and_tokenizer};

    #[test]
    fn a_models_work_is_that_of_its_matrices() {
        let loaded = load_model_and_tokenizer(&["embedded"], "float32", Device::Cpu).unwrap();
        let work = |m, n, k, bits| Work { operations: (2 * m * n * k) as f64, bytes: (n * k) as f64 * bits / 8.0 };
        let Work { operations, bytes } = work_of(&loaded, 1, 1, work);
        // All that a step reads, but for biases and norms.
        let read = loaded.model.info().bytes_per_token as f64;
        assert!(bytes <= read && bytes > 0.97 * read, "{bytes} of {read}");
        assert_eq!(operations, bytes / 2.0);
        let three = work_of(&loaded, 3, 1, work).operations;
        assert!(three > 2.0 * operations && three < 3.0 * operations, "the head has one row");
    }

    #[test]
    fn phases_are_placed_by_their_work() {
        let loaded = load_model_and_tokenizer(&["embedded"], "float32", Device::Cpu).unwrap();
        let work = |m: usize, _, _, _| Work { operations: m as f64, bytes: 1.0 };
        let runs = model_runs(&loaded, 16, 2, work).unwrap();
        let names: Vec<&str> = runs.iter().map(|run| &run.name[..]).collect();
        assert!(names[0].starts_with("prefill of ") && names.len() == 9, "{names:?}");
        assert_eq!((names[1], names[8]), ("decode, float32", "decode of 2 at once, NF4"));
        let intensities: Vec<f64> = runs.iter().map(|run| run.work.operations).collect();
        assert!(intensities[0] > intensities[2] && intensities[2] == 2.0 * intensities[1], "{intensities:?}");
        assert!(runs.iter().all(|run| run.gops().value > 0.0));
        assert!(arithmetic_gain(&runs) > 0.0 && arithmetic_gain(&[]).is_nan());
        let limits = Limits::measure(2).unwrap();
        assert_eq!(model_table(&runs, &limits, |_, _, _| 1.0).rows(), 9);
        assert_eq!(model_table(&runs, &limits, |_, _, _| todo!()).rows(), 9);
        assert_eq!(limits.table().rows(), 3);
        assert!(models_roofline(&runs, &limits).is_ok() && models_roofline(&[], &limits).is_ok());
    }
}

//! What each format costs in quality: the KL divergence of a model's predictions from those in full precision.
//!
//! ```sh
//! cargo lab exec cargo bench -p quantlab --bench quality -- [MODEL] [--only FORMAT,FORMAT] [--items]
//!     [--texts COUNT] [--plot FILE.png] [--json FILE.json] [--caches TOKENS] [--export FOLDER] [--checkpoints FOLDER]
//! ```
//!
//! GPTQ is with `act_order` and `clipping`, SmoothQuant with an alpha of 0.85; AWQ and rotations are rounded to the
//! nearest.
//!
//! The model is `smollm2:float32` unless another one is named. Calibration reads the first half of the text that ships
//! with the library, and the second half is what all formats are measured on. With `--items`, they also answer the library's
//! multiple-choice items, a minute or two for each. With `--caches`, formats of keys and values are compared instead, by how
//! much text lies before, on as many texts of so many tokens as the held-out text has, four at most.
//!
//! `--export` writes the model (`FOLDER/model`) and the texts of the calibration (`FOLDER/calibration.json`) for programs
//! that quantize as well, like those in `packages.py` beside this file; `--checkpoints` measures what they leave in the
//! folder, too.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};

use quantlab::error::{Error, Result};
use quantlab::measure::{
    ItemComparison, ItemScores, QualityComparison, compare_caches, compare_quality, items, score_items,
};
use quantlab::model::{
    CacheFormat, Engine, Fold, ImportanceMatrix, LoadOptions, Loaded, Precision, calibrate, hessians, load_model,
};
use quantlab::quant::{CalibrationMethod, GgufType, GptqOptions, Granularity, Hessians, QuantizationConfig, Rounding};
use quantlab::report::{BarPlot, Estimate, Table};
use quantlab::source::held_out_text;
use serde_json::json;

/// Characters of a text, which are far fewer tokens than a model reads at once.
const LENGTH: usize = 2500;
/// Texts to calibrate with, unless `--texts` says how many, and to measure on.
const CALIBRATED: usize = 16;
const MEASURED: usize = 4;
/// Weights that share a scale, which divide the widths of SmolLM2's layers (576 and 1536).
const GROUP: usize = 64;

/// How much of the difficulty SmoothQuant moves into the weights.
const ALPHA: f32 = 0.85;

/// What the names of others' checkpoints end with.
const SAVED: &str = " (checkpoint)";

/// What the command line says.
struct Arguments {
    model: String,
    /// The formats that are measured; all if there are none.
    only: Vec<String>,
    items: bool,
    /// Texts to calibrate with.
    texts: usize,
    plot: Option<PathBuf>,
    json: Option<PathBuf>,
    /// Tokens of the texts with which caches are compared, if they are.
    caches: Option<usize>,
    /// Where model and calibration are written to.
    export: Option<PathBuf>,
    /// The folder of others' checkpoints.
    checkpoints: Option<PathBuf>,
}

/// A format to be measured.
enum Way {
    BFloat16,
    Quantized(QuantizationConfig),
    /// In so many bits.
    Gptq(u32),
    /// int4 of a model with something folded in.
    Folded(MakeFold),
    /// Static int8, calibrated with what has been folded in.
    Static(Option<MakeFold>),
    Gguf(GgufType, bool),
    /// A checkpoint of somebody else's.
    Saved(PathBuf),
}

/// Makes what is to be folded into a model from the texts of the calibration.
type MakeFold = fn(&Loaded, &[String]) -> Result<Fold>;

/// The model in full precision, and what it says of the texts of the calibration.
struct Calibration<'a> {
    full: &'a Loaded,
    texts: &'a [String],
    /// Made when they are asked for.
    hessians: OnceCell<Hessians>,
}

impl Calibration<'_> {
    fn hessians(&self) -> Result<&Hessians> {
        match self.hessians.get() {
            Some(made) => Ok(made),
            None => {
                let made = hessians(self.full, self.texts)?;
                Ok(self.hessians.get_or_init(|| made))
            }
        }
    }
}

struct Row {
    name: String,
    mib: f64,
    quality: QualityComparison,
    items: Option<(ItemScores, ItemComparison)>,
}

fn main() -> Result<()> {
    let Some(arguments) = arguments()? else { return Ok(()) };
    let Arguments { model, only, items: with_items, texts: calibrated, plot, json, caches, export, checkpoints } =
        arguments;
    let ways = ways();
    if let Some(unknown) = only.iter().find(|name| ways.iter().all(|(known, _)| known != *name)) {
        let known: Vec<&str> = ways.iter().map(|(name, _)| name.as_str()).collect();
        return Err(Error::input(format!("there is no format {unknown:?}")).hint(format!("{} are", known.join(", "))));
    }
    let full = load_model(&[&model], &LoadOptions::default())?;
    if let Some(tokens) = caches {
        return of_caches(&full, tokens);
    }
    let (start, end) = held_out_text().split_at(held_out_text().len() / 2);
    let (calibration, measured) = (texts(start, calibrated), texts(end, MEASURED));
    if let Some(folder) = export {
        full.save_pretrained(folder.join("model"))?;
        return Ok(std::fs::write(folder.join("calibration.json"), serde_json::to_vec(&calibration)?)?);
    }
    let (read, measuring) = (calibration.len(), measured.len());
    println!("{}: calibrated on {read}, measured on {measuring} texts of {LENGTH} characters", full.summary());
    let items = items()?;
    let of_full = if with_items { Some(score_items(&full, &items)?) } else { None };
    if let Some(scores) = &of_full {
        println!("{}", scores.table().checked()?.to_text());
    }
    let folder = tempfile::tempdir()?;
    let mut rows = Vec::new();
    let calibration = Calibration { full: &full, texts: &calibration, hessians: OnceCell::new() };
    let wanted = ways.into_iter().filter(|(name, _)| only.is_empty() || only.contains(name));
    for (name, way) in wanted.chain(checkpoints.as_deref().map_or_else(|| Ok(Vec::new()), saved)?) {
        match load(&calibration, &way, folder.path()) {
            Ok(other) => {
                let info = other.model.info();
                let mib = (info.parameter_bytes + info.quant_state_bytes) as f64 / f64::from(1 << 20);
                let quality = compare_quality(&full, &other, &measured)?;
                println!("{name}: KL {} nats, {mib:.0} MiB", quality.kl_divergence);
                let answers = match &of_full {
                    Some(base) => {
                        let scores = score_items(&other, &items)?;
                        let change = scores.against(base)?;
                        println!("{name}: {change}");
                        Some((scores, change))
                    }
                    None => None,
                };
                rows.push(Row { name, mib, quality, items: answers });
            }
            Err(error) => println!("{name}: left out: {error}"),
        }
    }
    rows.sort_by(|a, b| a.quality.kl_divergence.value.total_cmp(&b.quality.kl_divergence.value));
    println!("{}", table(&rows, &model).checked()?.to_text());
    if let Some(base) = &of_full {
        println!("{}", items_table(base, &rows, &model).checked()?.to_text());
    }
    if let Some(path) = plot {
        draw(&rows, &model, &path)?;
    }
    if let Some(path) = json {
        let rows: Vec<_> = rows
            .iter()
            .map(|row| json!({"format": row.name, "mib": row.mib, "quality": row.quality, "items": row.items}))
            .collect();
        std::fs::write(path, serde_json::to_vec_pretty(&json!({"model": model, "items": of_full, "rows": rows}))?)?;
    }
    Ok(())
}

fn arguments() -> Result<Option<Arguments>> {
    let model = "smollm2:float32".to_owned();
    let mut arguments = Arguments {
        model,
        only: Vec::new(),
        items: false,
        texts: CALIBRATED,
        plot: None,
        json: None,
        caches: None,
        export: None,
        checkpoints: None,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let number =
            |text: &str| text.parse().map_err(|_| Error::input(format!("{word} needs a number, not {text:?}")));
        let mut value = || words.next().ok_or_else(|| Error::input(format!("{word} needs a value")));
        match word.as_str() {
            "--only" => arguments.only = value()?.split(',').map(str::to_owned).collect(),
            "--items" => arguments.items = true,
            "--texts" => arguments.texts = number(&value()?)?,
            "--plot" => arguments.plot = Some(value()?.into()),
            "--json" => arguments.json = Some(value()?.into()),
            "--export" => arguments.export = Some(value()?.into()),
            "--checkpoints" => arguments.checkpoints = Some(value()?.into()),
            "--caches" => arguments.caches = Some(number(&value()?)?),
            // Cargo's own.
            "--bench" => {}
            "--help" => {
                println!(
                    "[MODEL] [--only FORMAT,FORMAT] [--items] [--texts COUNT] [--plot FILE.png] [--json FILE.json] \
                     [--caches TOKENS] [--export FOLDER] [--checkpoints FOLDER]\n\
                     GPTQ is with act_order and clipping, SmoothQuant with an alpha of {ALPHA}."
                );
                return Ok(None);
            }
            model => arguments.model = model.to_owned(),
        }
    }
    Ok(Some(arguments))
}

fn texts(text: &str, count: usize) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    characters.chunks(LENGTH).take(count).map(|some| some.iter().collect()).collect()
}

/// The checkpoints in a folder, by their names, but for the model that they were made of.
fn saved(folder: &Path) -> Result<Vec<(String, Way)>> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    paths.retain(|path| path.join("config.json").is_file() && !path.ends_with("model"));
    paths.sort();
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned() + SAVED;
    Ok(paths.into_iter().map(|path| (name(&path), Way::Saved(path))).collect())
}

/// Every format, by its name.
fn ways() -> Vec<(String, Way)> {
    let smooth: MakeFold = |full, texts| Fold::smooth_quant(full, texts, ALPHA);
    let mut ways = vec![
        ("bfloat16".to_owned(), Way::BFloat16),
        ("nf4".to_owned(), Way::Quantized(QuantizationConfig::nf4())),
        ("fp4".to_owned(), Way::Quantized(QuantizationConfig::fp4())),
        ("int8".to_owned(), Way::Quantized(QuantizationConfig::int8())),
        ("static int8".to_owned(), Way::Static(None)),
        ("SmoothQuant static int8".to_owned(), Way::Static(Some(smooth))),
        (format!("w4a8-{GROUP}"), Way::Quantized(QuantizationConfig::w4a8(GROUP))),
    ];
    for bits in [4, 3] {
        let roundings = [("", Rounding::Nearest), ("clipped ", Rounding::Clipping), ("HQQ ", Rounding::Hqq)];
        ways.extend(roundings.map(|(name, rounding)| {
            let config = QuantizationConfig::affine(bits, GROUP, rounding);
            (format!("{name}int{bits}-{GROUP}"), Way::Quantized(config))
        }));
        ways.push((format!("GPTQ int{bits}-{GROUP}"), Way::Gptq(bits)));
    }
    ways.push((format!("AWQ int4-{GROUP}"), Way::Folded(|full, texts| Fold::awq(full, texts, GROUP))));
    ways.push((format!("rotated int4-{GROUP}"), Way::Folded(|_, _| Ok(Fold::hadamard(1)))));
    for kind in [GgufType::Q8_0, GgufType::Q6K, GgufType::Q4KM, GgufType::Q4_0] {
        ways.push((kind.to_string(), Way::Gguf(kind, false)));
    }
    ways.push((format!("{} with importance", GgufType::Q4KM), Way::Gguf(GgufType::Q4KM, true)));
    ways
}

fn load(calibration: &Calibration<'_>, way: &Way, folder: &Path) -> Result<Loaded> {
    let Calibration { full, texts, .. } = calibration;
    let model = full.model_id.as_str();
    let with = |fold: Option<&Fold>, quantization| {
        load_model(&[model], &LoadOptions { fold: fold.cloned(), quantization, ..LoadOptions::default() })
    };
    match way {
        Way::BFloat16 => {
            load_model(&[model], &LoadOptions { precision: Precision::BFloat16, ..LoadOptions::default() })
        }
        Way::Quantized(config) => with(None, Some(config.clone())),
        Way::Gptq(bits) => {
            let options = GptqOptions { clipping: true, ..GptqOptions::default() };
            let rounding = Rounding::Gptq(calibration.hessians()?.clone(), options);
            with(None, Some(QuantizationConfig::affine(*bits, GROUP, rounding)))
        }
        Way::Folded(make) => with(Some(&make(full, texts)?), Some(QuantizationConfig::int4(GROUP))),
        Way::Static(make) => {
            let fold = make.map(|make| make(full, texts)).transpose()?;
            let before = with(fold.as_ref(), None)?;
            let scales = calibrate(&before, texts, CalibrationMethod::AbsMax, Granularity::PerTensor)?;
            with(fold.as_ref(), Some(QuantizationConfig::static_int8(scales)))
        }
        Way::Saved(path) => load_model(&[path.to_string_lossy().as_ref()], &LoadOptions::default()),
        Way::Gguf(kind, with_importance) => {
            let importance = if *with_importance { Some(ImportanceMatrix::collect(full, texts)?) } else { None };
            let path = folder.join(format!("{kind}-{with_importance}.gguf"));
            full.save_gguf(&path, *kind, importance.as_ref())?;
            load_model(&[path.to_string_lossy().as_ref()], &LoadOptions::default())
        }
    }
}

/// What formats of keys and values change, in contexts of 64 to 127 tokens, 128 to 255, and so on.
fn of_caches(full: &Loaded, tokens: usize) -> Result<()> {
    let ids = full.tokenizer.encode(held_out_text())?;
    let sequences: Vec<Vec<u32>> = ids.chunks_exact(tokens).take(4).map(<[u32]>::to_vec).collect();
    let starts = std::iter::successors(Some(64), |start| Some(2 * start)).take_while(|&start| start < tokens);
    let contexts: Vec<_> = starts.map(|start| start..tokens.min(2 * start)).collect();
    let options = LoadOptions { engine: Some(Engine::Tch), dequantize: true, ..LoadOptions::default() };
    let floor = load_model(&[full.model_id.as_str()], &options)?;
    let formats = [CacheFormat::Float16, CacheFormat::Int8, CacheFormat::Int4];
    let others: Vec<_> =
        [(&floor, CacheFormat::Float32)].into_iter().chain(formats.map(|format| (full, format))).collect();
    let rows = compare_caches(full, &others, &sequences, &contexts)?;
    let name = |format| match format {
        CacheFormat::Float32 => "float32, tch".to_owned(),
        other => other.to_string(),
    };
    let table =
        Table::new(format!("Keys and values of {}, {} texts of {tokens} tokens", full.model_id, sequences.len()))
            .column("format", "", rows.iter().map(|row| name(row.format)))
            .column(
                "context",
                "tokens",
                rows.iter().map(|row| format!("{} to {}", row.context.start, row.context.end - 1)),
            )
            .column("KL divergence", "nats", rows.iter().map(|row| Estimate::from(row.kl_divergence)))
            .column("same top token", "%", rows.iter().map(|row| Estimate::from(row.same_top_token * 100.0)));
    println!("{}", table.checked()?.to_text());
    Ok(())
}

fn table(rows: &[Row], model: &str) -> Table {
    Table::new(format!("What formats change in the predictions of {model}"))
        .column("format", "", rows.iter().map(|row| row.name.as_str()))
        .column("weights", "MiB", rows.iter().map(|row| row.mib))
        .column("KL divergence", "nats", rows.iter().map(|row| Estimate::from(row.quality.kl_divergence)))
        .column("same top token", "%", rows.iter().map(|row| Estimate::from(row.quality.same_top_token * 100.0)))
}

fn items_table(base: &ItemScores, rows: &[Row], model: &str) -> Table {
    let answered: Vec<(&str, &ItemScores, &ItemComparison)> = rows
        .iter()
        .filter_map(|row| row.items.as_ref().map(|(scores, change)| (row.name.as_str(), scores, change)))
        .collect();
    let scores =
        || [("full precision", base, None)].into_iter().chain(answered.iter().map(|&(n, s, c)| (n, s, Some(c))));
    Table::new(format!("{} items, asked of {model}", base.scores.len()))
        .column("format", "", scores().map(|(name, ..)| name))
        .column("right", "%", scores().map(|(_, scores, _)| Estimate::from(scores.accuracy() * 100.0)))
        .column("lost", "", scores().map(|(.., change)| change.map(|change| change.lost)))
        .column("won", "", scores().map(|(.., change)| change.map(|change| change.won)))
        .column("p", "", scores().map(|(.., change)| change.map(|change| change.p)))
        .column(
            "change of margin",
            "nats/byte",
            scores().map(|(.., change)| change.map(|change| Estimate::from(change.margin_change))),
        )
        .plus_minus("right")
        .plus_minus("change of margin")
}

/// Who else has such a format, or what its integers have in common.
fn kind(name: &str) -> &'static str {
    match name {
        _ if name.ends_with(SAVED) => "checkpoints of others",
        _ if name.starts_with('Q') => "llama.cpp",
        "bfloat16" => "16 bits",
        _ if name.ends_with(&format!("-{GROUP}")) => "int4 and int3 in groups",
        _ if name.contains("static") => "int8 with static scales",
        _ => "bitsandbytes",
    }
}

fn draw(rows: &[Row], model: &str, path: &Path) -> Result<()> {
    let empty = BarPlot::new(format!("What formats change in the predictions of {model}"))
        .y("KL divergence from full precision", "nats")
        .log_y()
        .intervals("95% confidence interval");
    let plot =
        rows.iter().try_fold(empty, |plot, row| plot.bar(kind(&row.name), &row.name, row.quality.kl_divergence))?;
    if path.extension().is_some_and(|extension| extension == "png") { plot.save_png(path) } else { plot.save_svg(path) }
}

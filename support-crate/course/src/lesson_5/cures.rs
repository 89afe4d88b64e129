//! Whole models in 8 and 4 bits, as they are, with outliers, and cured by a learner's scales and rotations.

use quantlab::error::Result;
use quantlab::measure::{QualityBase, QualityComparison, TimingOptions};
use quantlab::model::{Architecture, Fold, LoadOptions, Loaded, calibrate, load_model};
use quantlab::quant::{CalibrationMethod, Granularity, QuantizationConfig};
use quantlab::report::Estimate;

use super::layers::{GROUP, Smoothing, Turn};
use super::signs;
use crate::formats::FormatRow;
use crate::{Claims, claim, held_out_samples};

/// How a whole model is quantized.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Not at all.
    Float32,
    /// Weights per row, inputs by one step for each layer, found on the calibration texts.
    StaticInt8,
    /// Weights per row, inputs by a step for each token, found while it is computed.
    DynamicInt8,
    /// The same, with columns apart that reach 6.
    LlmInt8,
    /// Weights in groups of 64; inputs stay as they are.
    Int4,
}

/// A model that is to be measured: folds, one after the other, and a format.
#[derive(Debug, Clone)]
pub struct Try {
    name: String,
    format: Format,
    fold: Option<Fold>,
    /// Whether a cure is still to be written.
    is_missing: bool,
}

impl Try {
    /// The model as it is.
    pub fn new(name: impl Into<String>, format: Format) -> Self {
        Self { name: name.into(), format, fold: None, is_missing: false }
    }

    /// With one more fold; left out of measurements as long as there is none.
    #[must_use]
    pub fn folded<'a>(mut self, fold: impl Into<Option<&'a Fold>>) -> Self {
        match (self.fold.take(), fold.into().cloned()) {
            (before, None) => (self.fold, self.is_missing) = (before, true),
            (None, next) => self.fold = next,
            (Some(before), Some(next)) => self.fold = Some(before.then(next)),
        }
        self
    }

    /// The model, from the beginning.
    ///
    /// # Errors
    /// As [`load_model`] and [`calibrate`].
    fn load(&self, id: &str, calibration: &[&str]) -> Result<Loaded> {
        let quantization = match self.format {
            Format::Float32 => None,
            Format::StaticInt8 => {
                let loaded = load_model(&[id], &LoadOptions { fold: self.fold.clone(), ..LoadOptions::default() })?;
                let scales = calibrate(&loaded, calibration, CalibrationMethod::AbsMax, Granularity::PerTensor)?;
                Some(QuantizationConfig::static_int8(scales))
            }
            Format::DynamicInt8 => Some(QuantizationConfig::llm_int8(0.0)),
            Format::LlmInt8 => Some(QuantizationConfig::llm_int8(6.0)),
            Format::Int4 => Some(QuantizationConfig::int4(GROUP)),
        };
        load_model(&[id], &LoadOptions { fold: self.fold.clone(), quantization, ..LoadOptions::default() })
    }
}

/// What a model has become, beside full precision.
#[derive(Debug, Clone)]
pub struct Cure {
    /// What tables call it.
    pub name: String,
    /// Its format.
    pub format: Format,
    /// Against the base in full precision.
    pub quality: QualityComparison,
}

impl Cure {
    /// The mean KL divergence from full precision, in nats.
    pub fn divergence(&self) -> Estimate {
        self.quality.kl_divergence.into()
    }
}

/// Texts that scales come from, and other ones that models are compared on.
#[derive(Debug, Clone)]
pub struct Study {
    /// Those for scales.
    pub calibration: Vec<&'static str>,
    /// Those to compare on.
    pub texts: Vec<&'static str>,
}

impl Study {
    /// Four pieces of the held-out text for scales, and two others to compare on.
    ///
    /// # Errors
    /// As [`held_out_samples`].
    pub fn held_out() -> Result<Self> {
        let samples = held_out_samples(12, 700)?;
        let every = |step, first| samples.iter().skip(first).step_by(step).copied().collect();
        Ok(Self { calibration: every(3, 1), texts: every(6, 0) })
    }

    /// Measures each model that has all its folds, loaded one after the other.
    ///
    /// # Errors
    /// A model that cannot be loaded in this way; as [`QualityBase::compare`].
    pub fn measured(&self, base: &Loaded, tries: &[Try]) -> Result<Vec<Cure>> {
        let quality = QualityBase::new(base, &self.texts);
        let measure = |one: &Try| {
            let loaded = one.load(&base.model_id, &self.calibration)?;
            Ok(Cure { name: one.name.clone(), format: one.format, quality: quality.compare(&loaded)? })
        };
        tries.iter().filter(|one| !one.is_missing).map(measure).collect()
    }

    /// Times reading a prompt in each format that rounds inputs and in none, in turn; `repeats` times each.
    ///
    /// # Errors
    /// A model that cannot be loaded; as [`FormatRow::in_turn`].
    pub fn timed(&self, base: &Loaded, fold: &Fold, repeats: usize) -> Result<Vec<FormatRow>> {
        let formats = [
            ("float32", Format::Float32),
            ("dynamic int8", Format::DynamicInt8),
            ("LLM.int8()", Format::LlmInt8),
            ("static int8", Format::StaticInt8),
        ];
        let tries = formats.map(|(name, format)| Try::new(name, format).folded(fold));
        let load = |one: &Try| one.load(&base.model_id, &self.calibration);
        let loaded: Vec<Loaded> = tries.iter().map(load).collect::<Result<_>>()?;
        let models: Vec<(&str, &Loaded)> = tries.iter().map(|one| one.name.as_str()).zip(&loaded).collect();
        let options = TimingOptions { max_new_tokens: 1, repeats, ..TimingOptions::default() };
        FormatRow::in_turn(&models, self.texts.first().copied().unwrap_or("Once"), &options)
    }
}

/// SmoothQuant with scales by a learner's function, for all sites of a model.
///
/// # Errors
/// As [`Fold::scales`].
pub fn smooth_fold(loaded: &Loaded, texts: &[&str], alpha: f32, smoothing: Smoothing) -> Result<Fold> {
    Fold::scales(loaded, texts, format!("your SmoothQuant (alpha {alpha})"), |site| {
        Ok(smoothing(&site.largest, &site.largest_weights(), alpha))
    })
}

/// Finds scales: means, powers, and the error of scales.
pub type BestScales = fn(&[f32], &[f32], &dyn Fn(&[f32]) -> f64) -> Vec<f32>;

/// The powers that AWQ's search goes through: `steps` of them, from 0 on, below 1.
pub fn powers(steps: usize) -> Vec<f32> {
    (0..steps).map(|step| step as f32 / steps as f32).collect()
}

/// AWQ with scales by a learner's search, for int4 in groups of 64, for all sites of a model.
///
/// # Errors
/// As [`Fold::scales`].
pub fn awq_fold(loaded: &Loaded, texts: &[&str], powers: &[f32], best_scales: BestScales) -> Result<Fold> {
    Fold::scales(loaded, texts, "your AWQ", |site| {
        // Fails for every scale, or for none: rows that are not whole groups.
        site.int4_error(&vec![1.0; site.means.len()], GROUP)?;
        let error = |scales: &[f32]| site.int4_error(scales, GROUP).unwrap_or(f64::INFINITY);
        Ok(best_scales(&site.means, powers, &error))
    })
}

/// The rotation of a learner's function as a fold: the matrix that it turns the unit vectors into. Layer norms subtract means,
/// which must stay: for these, each vector is turned once without signs before, and the first sign of each block is plus.
///
/// # Errors
/// As [`Fold::rotation`].
pub fn rotation_fold(loaded: &Loaded, turn: Turn) -> Result<Fold> {
    let info = loaded.model.info();
    let width = info.hidden_size;
    let mut signs = signs(width);
    let mut rows: Vec<f32> = (0..width * width).map(|i| f32::from(u8::from(i / width == i % width))).collect();
    if info.architecture == Architecture::Gpt2 {
        signs.iter_mut().step_by(1 << width.trailing_zeros()).for_each(|sign| *sign = 1.0);
        turn(&mut rows, &vec![1.0; width]);
    }
    turn(&mut rows, &signs);
    Fold::rotation(rows)
}

/// Whether each scale of a learner's fold is the library's.
pub fn same_scales(yours: Option<&Fold>, theirs: &Fold) -> Claims {
    let farthest = yours.and_then(|yours| {
        let pairs = yours.found_scales().flatten().zip(theirs.found_scales().flatten());
        pairs.map(|(a, b)| f64::from(a / b - 1.0).abs()).reduce(f64::max)
    });
    claim("your scales are the library's, to a part of 10000", farthest.map(|farthest| farthest < 1e-4))
}

#[cfg(test)]
mod tests {
    use super::super::reference::turn;
    use super::*;

    fn smooth(inputs: &[f32], weights: &[f32], alpha: f32) -> Vec<f32> {
        let of = |(x, w): (&f32, &f32)| if *x > 0.0 && *w > 0.0 { x.powf(alpha) / w.powf(1.0 - alpha) } else { 1.0 };
        inputs.iter().zip(weights).map(of).collect()
    }

    #[test]
    fn a_learners_folds_keep_a_model_and_cure_it() {
        let base = load_model(&["embedded"], &LoadOptions::default()).unwrap();
        let study = Study {
            calibration: vec!["Once upon a time there lived a fisher who had a small boat.", "It rained all day long."],
            texts: vec!["Nobody knew why, and nobody asked. The boat was gone in the morning."],
        };
        let outliers = Fold::outliers(6, 40.0, 3).unwrap();
        let options = LoadOptions { fold: Some(outliers.clone()), ..LoadOptions::default() };
        let outlying = load_model(&["embedded"], &options).unwrap();
        let yours = smooth_fold(&outlying, &study.calibration, 0.7, smooth).unwrap();
        let theirs = Fold::smooth_quant(&outlying, &study.calibration, 0.7).unwrap();
        assert!(same_scales(Some(&yours), &theirs).to_string().contains("+ your scales"));
        let half = Fold::smooth_quant(&outlying, &study.calibration, 0.5).unwrap();
        assert!(!same_scales(Some(&yours), &half).hold());
        for none in [None, Some(&outliers)] {
            assert!(same_scales(none, &theirs).to_string().contains("not measured yet"));
        }
        let rotation = rotation_fold(&base, turn).unwrap();
        let tries = [
            Try::new("float32", Format::Float32).folded(&outliers).folded(&rotation),
            Try::new("static", Format::StaticInt8).folded(&outliers),
            Try::new("smooth", Format::StaticInt8).folded(&outliers).folded(Some(&yours)),
            Try::new("turned", Format::StaticInt8).folded(&outliers).folded(&rotation),
            Try::new("missing", Format::LlmInt8).folded(None),
        ];
        let cures = study.measured(&base, &tries).unwrap();
        let kl: Vec<f64> = cures.iter().map(|cure| cure.divergence().value).collect();
        assert_eq!(cures.len(), 4);
        assert!(kl[0] < 1e-6 && kl[1] > 3.0 * kl[2] && kl[1] > 3.0 * kl[3], "{kl:?}");
        let speed = study.timed(&base, &outliers, 2).unwrap();
        assert_eq!((speed.len(), speed[3].name.as_str(), speed[0].timing.runs.runs.len()), (4, "static int8", 2));
        let held_out = Study::held_out().unwrap();
        assert!(held_out.calibration.len() == 4 && held_out.texts.len() == 2);
        assert!(held_out.texts.iter().all(|text| !held_out.calibration.contains(text)));
        assert_eq!(powers(4), [0.0, 0.25, 0.5, 0.75]);
    }
}

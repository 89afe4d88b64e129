//! `run_static_ptq`: calibrate, load in static int8, see that it generates.

use std::sync::{Mutex, PoisonError};

use crate::course::probe::{Costs, Machine, ProbeModel};
use crate::course::{Check, Complaint, Score, ask, must_fail};
use crate::error::{Error, Result};
use crate::generate::{GenerateOptions, generate};
use crate::model::{CausalLm, Engine, Hub, LoadOptions, Loaded, ModelHub, Tokenizer, calibrate};
use crate::quant::{Calibration, CalibrationMethod, Granularity, QuantizationConfig};

const PROMPTS: [&str; 2] = ["The capital of France is", "Once upon a time there was a fox who"];
const METHOD: CalibrationMethod = CalibrationMethod::Percentile(99.0);

const HINTS: [&str; 3] = [
    "What must be known about a layer's inputs before its scales can be fixed, and which model do you have to run to \
     find out?",
    "`calibrate(baseline, prompts, method, Granularity::PerTensor)?` finds the scales, \
     `QuantizationConfig::static_int8(calibration)` makes a configuration of them, and `LoadOptions { quantization: \
     Some(config), ..LoadOptions::default() }` has `hub.model` quantize while it loads.",
    "After loading: `let quantized = Loaded::new(hub.tokenizer(id)?, hub.model(id, &options)?, id, label)?`, then \
     `generate(&quantized, prompts[0], &GenerateOptions { max_new_tokens: 8, ..GenerateOptions::default() })?`, and \
     `let info = format!(\"{} | {}\", quantized.model.info().engine, quantized.dtype_label)`, where the label comes \
     from `config.to_string()`.",
];

/// Checks `run_static_ptq(hub, baseline, prompts, method)`.
pub fn check_run_static_ptq(
    yours: impl Fn(&dyn ModelHub, &Loaded, &[&str], CalibrationMethod) -> Result<(Loaded, String)>,
) -> Score {
    let hub = LabHub::default();
    let trial = Trial::run(&hub, &yours);
    Check::new("run_static_ptq", HINTS)
        .about(&trial, "loads the model that the baseline is, and says which", |trial| trial.is_same_model(&hub))
        .about(&trial, "what comes back is quantized, with fixed scales", |trial| trial.is_static(&hub))
        .about(&trial, "calibrates on the prompts that it was given, each whole", |trial| trial.saw_prompts(&hub))
        .about(&trial, "calibrates by the method that it was given", |_| {
            hub.calibration().and_then(|it| by_method(&it))
        })
        .about(&trial, "generates what the library's own pipeline generates", Trial::generates_the_same)
        .about(&trial, "everything else is loaded as the baseline is", |_| all_else_the_same(&hub))
        .about(&trial, "the label and the info say engine and precision", Trial::is_labelled)
        .point("a quantized model that cannot generate is an error, and so is what cannot be loaded", {
            notices_broken(&hub, &yours).and_then(|()| passes_errors_on(&hub, &yours))
        })
        .score()
}

/// The embedded model under another name, and one that is broken once it is quantized.
#[derive(Debug, Default)]
struct LabHub {
    asked: Mutex<Vec<(String, LoadOptions)>>,
}

const WHOLE: &str = "lab/whole";
const BROKEN: &str = "lab/broken";
const WITHOUT_WEIGHTS: &str = "lab/without-weights";
const EMBEDDED: &str = "embedded";

impl LabHub {
    fn asked(&self) -> Vec<(String, LoadOptions)> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What the last model was quantized by.
    fn calibration(&self) -> Result<Calibration, Complaint> {
        let last = self.asked().into_iter().rfind(|(id, _)| id == WHOLE);
        match last.and_then(|(_, options)| options.quantization) {
            None => wrong!("the model was loaded without `quantization`: what comes back is the baseline once more"),
            Some(QuantizationConfig { calibration: Some(calibration), .. }) => Ok(calibration),
            Some(config) => wrong!(
                "the model was loaded as {config}, which finds a scale for every token while it runs: that is dynamic. \
                 Static means scales from a calibration: `QuantizationConfig::static_int8(calibration)`"
            ),
        }
    }
}

impl ModelHub for LabHub {
    fn tokenizer(&self, model_id: &str) -> Result<Tokenizer> {
        match model_id {
            WHOLE | BROKEN | WITHOUT_WEIGHTS => Hub.tokenizer(EMBEDDED),
            other => Err(Error::source(format!("there is no model `{other}` here; the baseline is `{WHOLE}`"))),
        }
    }

    fn model(&self, model_id: &str, options: &LoadOptions) -> Result<Box<dyn CausalLm>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).push((model_id.to_owned(), options.clone()));
        match model_id {
            BROKEN => {
                let machine = Machine::new(Costs::default());
                let vocab_size = machine.tokenizer()?.vocab_size();
                let model = ProbeModel::new(&machine, vocab_size).saying(move |_, _| vec![f32::NAN; vocab_size]);
                Ok(Box::new(model.with_info(|info| info.quant_state_bytes = 1)))
            }
            WITHOUT_WEIGHTS => Err(Error::source(format!("the weights of `{model_id}` cannot be read"))),
            _ => self.tokenizer(model_id).and_then(|_| Hub.model(EMBEDDED, options)),
        }
    }
}

/// The embedded model in full precision, called by another name.
fn baseline(model_id: &str) -> Result<Loaded> {
    Loaded::new(Hub.tokenizer(EMBEDDED)?, Hub.model(EMBEDDED, &LoadOptions::default())?, model_id, "float32")
}

/// One call of the answer.
struct Trial {
    quantized: Loaded,
    info: String,
    /// What the library makes of the same.
    expected: Loaded,
    prompt_tokens: usize,
}

type Answer<'a> = dyn Fn(&dyn ModelHub, &Loaded, &[&str], CalibrationMethod) -> Result<(Loaded, String)> + 'a;

impl Trial {
    fn run(hub: &LabHub, yours: &Answer<'_>) -> Result<Self, Complaint> {
        let baseline = baseline(WHOLE)?;
        let (quantized, info) = ask(|| yours(hub, &baseline, &PROMPTS, METHOD))?;
        let calibration = calibrate(&baseline, &PROMPTS, METHOD, Granularity::PerTensor)?;
        let quantization = Some(QuantizationConfig::static_int8(calibration));
        let options = LoadOptions { quantization, ..LoadOptions::default() };
        let expected = Loaded::new(Hub.tokenizer(EMBEDDED)?, Hub.model(EMBEDDED, &options)?, WHOLE, "static int8")?;
        let prompt_tokens = super::expected::tokens_of(&PROMPTS)?.iter().map(Vec::len).sum();
        Ok(Self { quantized, info, expected, prompt_tokens })
    }

    fn is_same_model(&self, hub: &LabHub) -> Result<(), Complaint> {
        if !hub.asked().iter().any(|(id, _)| id == WHOLE) {
            return wrong!("nothing was loaded through `hub`: `hub.model(&baseline.model_id, &options)?`");
        }
        match self.quantized.model_id.as_str() {
            WHOLE => Ok(()),
            other => wrong!("the baseline is {WHOLE:?}, yours calls itself {other:?}"),
        }
    }

    fn is_static(&self, hub: &LabHub) -> Result<(), Complaint> {
        hub.calibration()?;
        match self.quantized.model.info().quant_state_bytes {
            0 => wrong!(
                "a quantized model was loaded, but the one that comes back has no int8 weights: is it the baseline?",
            ),
            _ => Ok(()),
        }
    }

    fn saw_prompts(&self, hub: &LabHub) -> Result<(), Complaint> {
        let calibration = hub.calibration()?;
        let seen = calibration.layers().iter().map(|layer| layer.tokens).max().unwrap_or(0);
        if seen != self.prompt_tokens {
            return wrong!(
                "the prompts have {} tokens, your calibration saw {seen}: scales found on other texts may clip what \
                 these need",
                self.prompt_tokens
            );
        }
        let same = calibrate(&baseline(WHOLE)?, &PROMPTS, calibration.method(), calibration.granularity())?;
        Complaint::unless(
            same == calibration,
            || "the calibration is not one of these prompts: did others of the same length run?",
        )
    }

    fn generates_the_same(&self) -> Result<(), Complaint> {
        let options = GenerateOptions { max_new_tokens: 12, ..GenerateOptions::default() };
        for prompt in PROMPTS {
            let yours = generate(&self.quantized, prompt, &options)?.text;
            let ours = generate(&self.expected, prompt, &options)?.text;
            if yours != ours {
                return wrong!("after {prompt:?} your model says {yours:?}, the library's own static int8 {ours:?}");
            }
        }
        Ok(())
    }

    fn is_labelled(&self) -> Result<(), Complaint> {
        let engine = self.quantized.model.info().engine;
        let label = self.quantized.dtype_label.to_lowercase();
        let mut words = label.split(|c: char| !c.is_alphanumeric());
        if !(words.any(|word| word == "int8") && label.contains("static")) {
            return wrong!(
                "`dtype_label` is {label:?}: every table made with this model will say so, and it runs in static int8"
            );
        }
        match self.info.to_lowercase() {
            info if !info.contains("int8") => {
                wrong!("the info does not name the precision (static int8): {info:?}")
            }
            info if !info.contains(engine) => {
                wrong!("the info does not name the engine ({engine}): {info:?}")
            }
            _ => Ok(()),
        }
    }
}

/// Field by field: precision, device, engine, head, and what is left out.
fn all_else_the_same(hub: &LabHub) -> Result<(), Complaint> {
    let calibration = hub.calibration()?;
    Complaint::unless(
        calibration.granularity() == Granularity::PerTensor,
        || "the calibration has a scale for each channel; `Granularity::PerTensor` was asked for",
    )?;
    let Some((_, asked)) = hub.asked().into_iter().rfind(|(id, _)| id == WHOLE) else { return Ok(()) };
    let LoadOptions { precision, device, engine, quantization, check_finite: _ } = asked;
    let expected = LoadOptions::default();
    Complaint::unless((precision, device) == (expected.precision, expected.device), || {
        format!(
            "the baseline runs in {} on {}, yours was loaded in {precision} on {device}: then int8 is not all that \
             differs",
            expected.precision, expected.device
        )
    })?;
    Complaint::unless(
        engine.is_none() || engine == Some(Engine::for_device(device)),
        || "your model was loaded on another engine than the baseline: then int8 is not all that differs",
    )?;
    let plain = QuantizationConfig::static_int8(calibration);
    Complaint::unless(quantization.as_ref() == Some(&plain), || {
        let yours = quantization.map_or_else(String::new, |config| config.to_string());
        format!("the model was loaded as `{yours}`, with settings that `QuantizationConfig::static_int8` does not have")
    })
}

fn by_method(calibration: &Calibration) -> Result<(), Complaint> {
    Complaint::unless(calibration.method() == METHOD, || {
        format!("`method` was {METHOD}, your calibration is by {}", calibration.method())
    })
}

/// A tokenizer or a model that cannot be had, and no prompts to calibrate on.
fn passes_errors_on(hub: &LabHub, yours: &Answer<'_>) -> Result<(), Complaint> {
    let unknown = "lab/unknown";
    let cases = [
        ("the hub does not have the model", unknown, &PROMPTS[..]),
        ("the hub has the tokenizer, but no weights", WITHOUT_WEIGHTS, &PROMPTS[..]),
        ("there are no prompts to calibrate on", WHOLE, &[][..]),
    ];
    for (what, model_id, prompts) in cases {
        let got = ask(|| yours(hub, &baseline(model_id)?, prompts, METHOD));
        must_fail(got, |_| format!("{what}, but you returned a model as if all was well"))?;
    }
    // One prompt is enough.
    ask(|| yours(hub, &baseline(WHOLE)?, &PROMPTS[..1], METHOD)).map(drop)
}

fn notices_broken(hub: &LabHub, yours: &Answer<'_>) -> Result<(), Complaint> {
    let baseline = baseline(BROKEN)?;
    must_fail(ask(|| yours(hub, &baseline, &PROMPTS, METHOD)), |_| {
        "the quantized model computes only NaN, and your function returned it: generate a few tokens with it first, \
         and let `?` pass the error on"
    })
}

//! `run_static_ptq`: calibrate, load in static int8, see that it generates.

use std::cell::RefCell;

use quantlab::error::{Error, Result};
use quantlab::generate::{GenerateOptions, generate};
use quantlab::model::{CausalLm, Engine, Hub, LoadOptions, Loaded, ModelHub, Tokenizer, calibrate};
use quantlab::quant::{Calibration, CalibrationMethod, Granularity, QuantizationConfig, QuantizationMethod};

use crate::cases::LONG_PROMPT;
use crate::failures::must_fail;
use crate::probe::{Costs, Machine, ProbeModel};
use crate::{Complaint, Score, Verdict, ask};

/// More than a few prompts, one of them long, one repeated, and one with spaces around it.
const PROMPTS: [&str; 6] = [
    "The capital of France is",
    "Once upon a time there was a fox who",
    LONG_PROMPT,
    "  The door stood open.\n",
    "The capital of France is",
    "na\u{ef}ve caf\u{e9}",
];
const METHOD: CalibrationMethod = CalibrationMethod::Percentile(99.0);

const HINTS: [&str; 3] = [
    "What must be known about a layer's inputs before its scales can be fixed, and which model do you have to run to \
     find out?",
    "`calibrate(baseline, prompts, method, Granularity::PerTensor)?` finds the scales, \
     `QuantizationConfig::static_int8(calibration)` makes a configuration from them, and `LoadOptions { quantization: \
     Some(config), ..LoadOptions::default() }` has `hub.model` quantize while it loads.",
    "After loading: `let quantized = Loaded::new(hub.tokenizer(id)?, hub.model(id, &options)?, id, label)?`, then \
     `generate(&quantized, prompts[0], &GenerateOptions { max_new_tokens: 8, ..GenerateOptions::default() })?`, and \
     `let info = format!(\"{} | {}\", quantized.model.info().engine, quantized.dtype_label)`, where the label comes \
     from `config.to_string()`.",
];

/// Checks `run_static_ptq(hub, baseline, prompts, method)`.
pub fn check_run_static_ptq(
    yours: fn(&dyn ModelHub, &Loaded, &[&str], CalibrationMethod) -> Result<(Loaded, String)>,
) -> Score {
    let hub = LabHub::default();
    let calls = baseline().map(|baseline| Calls { yours: &yours, baseline: RefCell::new(baseline) });
    let calls = calls.as_ref().map_err(|error| Complaint::wrong(error.to_string()));
    let trial = calls.clone().and_then(|calls| Trial::run(&hub, calls));
    Score::new("run_static_ptq", HINTS)
        .about(&trial, "loads the baseline's model, and says which it is", |trial| trial.is_same_model(&hub))
        .about(&trial, "what comes back is quantized, with fixed scales", |trial| trial.is_static(&hub))
        .about(&trial, "calibrates on the prompts that it was given, each in full", |trial| {
            trial.saw_prompts(&hub.calibration()?, &calls.clone()?.baseline.borrow())
        })
        .about(&trial, "calibrates by the method that it was given", |_| {
            by_method(&hub.calibration()?, METHOD)?;
            let (other, hub) = (CalibrationMethod::AbsMax, LabHub::default());
            calls.clone()?.call(&hub, WHOLE, &PROMPTS[..2], other)?;
            by_method(&hub.calibration()?, other)
        })
        .about(&trial, "generates what the library's own pipeline generates", Trial::generates_the_same)
        .about(&trial, "everything else is loaded as the baseline is", |_| all_else_the_same(&hub))
        .about(&trial, "the label and the info say engine and precision", |trial| {
            trial.is_labelled()?;
            let (_, info) = calls.clone()?.call(&hub, OTHER_ENGINE, &PROMPTS[..1], METHOD)?;
            Complaint::unless(info.contains("candle"), || {
                format!(
                    "a model that `candle` computes got the info {info:?}: name the engine of the model that was loaded"
                )
            })
        })
        .point("a quantized model that cannot generate is an error, and so is what cannot be loaded", {
            calls.clone().and_then(|calls| {
                notices_broken(&hub, calls)?;
                passes_errors_on(&hub, calls)
            })
        })
}

/// The embedded model under another name, and one that is broken once it is quantized.
#[derive(Debug, Default)]
struct LabHub {
    asked: RefCell<Vec<(String, LoadOptions)>>,
}

const WHOLE: &str = "lab/whole";
const BROKEN: &str = "lab/broken";
/// A model that is computed by a different engine from the baseline's.
const OTHER_ENGINE: &str = "lab/other";
const WITHOUT_WEIGHTS: &str = "lab/without-weights";
const EMBEDDED: &str = "embedded";

impl LabHub {
    fn asked(&self) -> Vec<(String, LoadOptions)> {
        self.asked.borrow().clone()
    }

    /// The calibration that the last model was quantized with.
    fn calibration(&self) -> Result<Calibration, Complaint> {
        let last = self.asked().into_iter().rfind(|(id, _)| id == WHOLE);
        match last.and_then(|(_, options)| options.quantization) {
            None => wrong!("the model was loaded without `quantization`: what comes back is the baseline again"),
            Some(QuantizationConfig { method: QuantizationMethod::StaticInt8(calibration), .. }) => Ok(calibration),
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
            WHOLE | BROKEN | OTHER_ENGINE | WITHOUT_WEIGHTS => Hub.tokenizer(EMBEDDED),
            other => Err(Error::source(format!("there is no model `{other}` here; the baseline is `{WHOLE}`"))),
        }
    }

    fn model(&self, model_id: &str, options: &LoadOptions) -> Result<Box<dyn CausalLm>> {
        self.asked.borrow_mut().push((model_id.to_owned(), options.clone()));
        match model_id {
            BROKEN | OTHER_ENGINE => {
                let machine = Machine::new(Costs::PLAIN);
                let vocab_size = machine.tokenizer()?.vocab_size();
                let logit = if model_id == BROKEN { f32::NAN } else { 0.5 };
                let model = ProbeModel::new(&machine, vocab_size).saying(move |_, _| vec![logit; vocab_size]);
                Ok(Box::new(model.with_info(|info| info.quant_state_bytes = 1)))
            }
            WITHOUT_WEIGHTS => Err(Error::source(format!("the weights of `{model_id}` cannot be read"))),
            _ => self.tokenizer(model_id).and_then(|_| Hub.model(EMBEDDED, options)),
        }
    }
}

/// The embedded model in full precision.
fn baseline() -> Result<Loaded> {
    Loaded::new(Hub.tokenizer(EMBEDDED)?, Hub.model(EMBEDDED, &LoadOptions::default())?, WHOLE, "float32")
}

/// The answer, and a baseline to call it with.
struct Calls<'a> {
    yours: &'a Answer<'a>,
    baseline: RefCell<Loaded>,
}

impl Calls<'_> {
    /// Calls the answer with the baseline under a name.
    fn call(
        &self,
        hub: &LabHub,
        model_id: &str,
        prompts: &[&str],
        method: CalibrationMethod,
    ) -> Result<(Loaded, String), Complaint> {
        self.baseline.borrow_mut().model_id = model_id.to_owned();
        ask(|| (self.yours)(hub, &self.baseline.borrow(), prompts, method))
    }
}

/// One call of the answer.
struct Trial {
    quantized: Loaded,
    info: String,
    models_loaded: usize,
    /// What the library returns for the same input.
    expected: Loaded,
    /// The number of tokens of each prompt.
    prompt_tokens: Vec<usize>,
}

type Answer<'a> = dyn Fn(&dyn ModelHub, &Loaded, &[&str], CalibrationMethod) -> Result<(Loaded, String)> + 'a;

impl Trial {
    fn run(hub: &LabHub, calls: &Calls<'_>) -> Result<Self, Complaint> {
        let (quantized, info) = calls.call(hub, WHOLE, &PROMPTS, METHOD)?;
        let models_loaded = hub.asked().len();
        let calibration = calibrate(&calls.baseline.borrow(), &PROMPTS, METHOD, Granularity::PerTensor)?;
        let quantization = Some(QuantizationConfig::static_int8(calibration));
        let options = LoadOptions { quantization, ..LoadOptions::default() };
        let expected = Loaded::new(Hub.tokenizer(EMBEDDED)?, Hub.model(EMBEDDED, &options)?, WHOLE, "static int8")?;
        let prompt_tokens = super::expected::tokens_of(&PROMPTS)?.iter().map(Vec::len).collect();
        Ok(Self { quantized, info, models_loaded, expected, prompt_tokens })
    }

    fn is_same_model(&self, hub: &LabHub) -> Verdict {
        if !hub.asked().iter().any(|(id, _)| id == WHOLE) {
            return wrong!("nothing was loaded through `hub`: `hub.model(&baseline.model_id, &options)?`");
        }
        let loaded = self.models_loaded;
        Complaint::unless(loaded == 1, || {
            format!(
                "the model was loaded {loaded} times: return the one that you have seen generate, not another one like \
                 it"
            )
        })?;
        match self.quantized.model_id.as_str() {
            WHOLE => Ok(()),
            other => wrong!("the baseline is {WHOLE:?}, but yours calls itself {other:?}"),
        }
    }

    fn is_static(&self, hub: &LabHub) -> Verdict {
        hub.calibration()?;
        match self.quantized.model.info().quant_state_bytes {
            0 => wrong!(
                "a quantized model was loaded, but the one that comes back has no int8 weights: is it the baseline?",
            ),
            _ => Ok(()),
        }
    }

    fn saw_prompts(&self, calibration: &Calibration, baseline: &Loaded) -> Verdict {
        let seen = calibration.layers().iter().map(|layer| layer.tokens).max().unwrap_or(0);
        let all: usize = self.prompt_tokens.iter().sum();
        if seen != all {
            let firsts = (1..PROMPTS.len()).find(|&n| self.prompt_tokens[..n].iter().sum::<usize>() == seen);
            let which =
                firsts.map(|n| format!(", those of the first {n} of {} prompts", PROMPTS.len())).unwrap_or_default();
            return wrong!(
                "the prompts have {all} tokens, but your calibration saw {seen}{which}: scales found on other texts \
                 may clip what these need"
            );
        }
        let same = calibrate(baseline, &PROMPTS, calibration.method(), calibration.granularity())?;
        Complaint::unless(
            same == *calibration,
            || "the calibration is not from these prompts: did others of the same length run?",
        )
    }

    fn generates_the_same(&self) -> Verdict {
        let options = GenerateOptions { max_new_tokens: 12, ..GenerateOptions::default() };
        for prompt in PROMPTS {
            let yours = generate(&self.quantized, prompt, &options)?.text;
            let ours = generate(&self.expected, prompt, &options)?.text;
            if yours != ours {
                return wrong!(
                    "after {prompt:?} your model says {yours:?}, but the library's own static int8 says {ours:?}"
                );
            }
        }
        Ok(())
    }

    fn is_labelled(&self) -> Verdict {
        let engine = self.quantized.model.info().engine;
        let label = self.quantized.dtype_label.to_lowercase();
        let mut words = label.split(|c: char| !c.is_alphanumeric());
        if !(words.any(|word| word == "int8") && label.contains("static")) {
            return wrong!(
                "`dtype_label` is {label:?}: every table made with this model will say so, and it runs in static int8"
            );
        }
        match self.info.to_lowercase() {
            info if !info.contains("int8") || !info.contains("static") => {
                wrong!("the info does not name the precision (static int8): {info:?}")
            }
            info if !info.contains(engine.name()) => wrong!("the info does not name the engine ({engine}): {info:?}"),
            _ => Ok(()),
        }
    }
}

/// Field by field: precision, device, engine, head, and what is left out.
fn all_else_the_same(hub: &LabHub) -> Verdict {
    let calibration = hub.calibration()?;
    Complaint::unless(
        calibration.granularity() == Granularity::PerTensor,
        || "the calibration has a scale for each channel; `Granularity::PerTensor` was asked for",
    )?;
    let Some((_, asked)) = hub.asked().into_iter().rfind(|(id, _)| id == WHOLE) else { return Ok(()) };
    let LoadOptions { precision, device, engine, quantization, .. } = asked;
    let expected = LoadOptions::default();
    Complaint::unless((precision, device) == (expected.precision, expected.device), || {
        format!(
            "the baseline runs in {} on {}, but yours was loaded in {precision} on {device}: then int8 is not the only \
             difference",
            expected.precision, expected.device
        )
    })?;
    Complaint::unless(
        engine.is_none() || engine == Some(Engine::for_device(device)),
        || "your model was loaded on a different engine from the baseline's: then int8 is not the only difference",
    )?;
    let plain = QuantizationConfig::static_int8(calibration);
    Complaint::unless(quantization.as_ref() == Some(&plain), || {
        let yours = quantization.map_or_else(String::new, |config| config.to_string());
        format!("the model was loaded as `{yours}`, with settings that `QuantizationConfig::static_int8` does not have")
    })
}

fn by_method(calibration: &Calibration, method: CalibrationMethod) -> Verdict {
    Complaint::unless(calibration.method() == method, || {
        format!("`method` was {method}, but your calibration is by {}", calibration.method())
    })
}

/// A tokenizer or a model that is unavailable, and no prompts to calibrate on.
fn passes_errors_on(hub: &LabHub, calls: &Calls<'_>) -> Verdict {
    let unknown = "lab/unknown";
    let cases = [
        ("the hub does not have the model", unknown, &PROMPTS[..1]),
        ("the hub has the tokenizer, but no weights", WITHOUT_WEIGHTS, &PROMPTS[..1]),
        ("there are no prompts to calibrate on", WHOLE, &[][..]),
    ];
    for (what, model_id, prompts) in cases {
        let got = calls.call(hub, model_id, prompts, METHOD);
        must_fail(got, |_| format!("{what}, but you returned a model as if all was well"))?;
    }
    // One prompt is enough.
    calls.call(hub, WHOLE, &PROMPTS[..1], METHOD).map(drop)
}

fn notices_broken(hub: &LabHub, calls: &Calls<'_>) -> Verdict {
    must_fail(calls.call(hub, BROKEN, &PROMPTS[..2], METHOD), |_| {
        "the quantized model computes only NaN, and your function returned it: generate a few tokens with it first, \
         and let `?` pass the error on"
    })
}

//! Models in several formats for `run_experiment`, some of which fail.

use std::cell::RefCell;

use quantlab::error::{Error, Result};
use quantlab::measure::Clock;
use quantlab::model::{CausalLm, LoadOptions, ModelHub, Precision, TensorInfo, TensorKind, Tokenizer};
use quantlab::quant::{FourBitOptions, QuantizationConfig};

use super::{Configuration, ExperimentSettings};
use crate::cases::LONG_PROMPT;
use crate::probe::{Costs, Event, Machine, ProbeClock, ProbeModel, one_of};

const COSTS: Costs = Costs { cold_start: 50.0, encode: 1e4, decode: 1e5, is_asynchronous: true, ..Costs::PLAIN };

/// The message of a machine whose device fails.
pub(super) const DEVICE_FAILED: &str = "the device has failed";

/// What the answer is given, and what fails.
#[derive(Clone)]
pub(super) struct Scenario {
    pub configurations: Vec<Configuration>,
    pub settings: ExperimentSettings,
    /// The place of the one that cannot be loaded, and why.
    pub broken: Option<(usize, &'static str)>,
    /// Which call of a model fails.
    fails_at: Option<usize>,
    has_tokenizer: bool,
}

impl Scenario {
    /// These differ in everything: the configurations and their names, prompts, counts, and which of them fails, if any.
    pub fn all() -> [Self; 4] {
        let double = QuantizationConfig::four_bit(FourBitOptions { double_quant: true, ..FourBitOptions::default() });
        let plain = QuantizationConfig::llm_int8(0.0);
        let small = QuantizationConfig::four_bit(FourBitOptions { blocksize: 128, ..FourBitOptions::default() });
        [
            Self::new(
                Precision::Float32,
                &[
                    ("FP32 (Baseline CPU)", None),
                    ("INT8", Some(QuantizationConfig::int8())),
                    ("NF4", Some(QuantizationConfig::nf4())),
                    ("FP4", Some(QuantizationConfig::fp4())),
                ],
                settings(
                    "lab/whole",
                    4,
                    3,
                    &[
                        "The capital of France is",
                        "Once upon a time, in a land far, far away, there lived a fisher who had a small boat and a very old \
                         dog.",
                        "Sam",
                    ],
                ),
                Some((1, "this processor has no int8 multiplication")),
            ),
            Self::new(
                Precision::BFloat16,
                &[
                    ("NF4, double quantization", Some(double)),
                    ("NF4", Some(QuantizationConfig::nf4())),
                    ("bfloat16", None),
                ],
                // The thirtieth byte stands in the middle of a character.
                settings("lab/other", 6, 5, &["Sam had a cat and a small, na\u{ef}ve boat", "The king"]),
                Some((2, "no memory is left for the weights")),
            ),
            // As little as there can be.
            Self::new(
                Precision::Float32,
                &[("FP4", Some(QuantizationConfig::fp4()))],
                settings("lab/whole", 1, 1, &["  The door stood open.\n"]),
                None,
            ),
            // Many prompts, one of them repeated, and one longer than most.
            Self::new(
                Precision::Float16,
                &[
                    ("FP16 (Baseline GPU)", None),
                    ("NF4", Some(QuantizationConfig::nf4())),
                    ("INT8", Some(QuantizationConfig::int8())),
                    ("FP4", Some(QuantizationConfig::fp4())),
                    ("INT8, no outliers", Some(plain)),
                    ("NF4, small blocks", Some(small)),
                ],
                settings(
                    "lab/other",
                    60,
                    8,
                    &["A", "Sam had a cat", "The king", "Sam had a cat", "Yes!", LONG_PROMPT, "Why?"],
                ),
                Some((0, "there is no such device")),
            ),
        ]
    }

    fn new(
        precision: Precision,
        formats: &[(&str, Option<QuantizationConfig>)],
        settings: ExperimentSettings,
        broken: Option<(usize, &'static str)>,
    ) -> Self {
        let configuration = |(name, quantization): &(&str, Option<QuantizationConfig>)| {
            let quantization = quantization.clone();
            Configuration::new(*name, LoadOptions { precision, quantization, ..LoadOptions::default() })
        };
        let configurations = formats.iter().map(configuration).collect();
        Self { configurations, settings, broken, fails_at: None, has_tokenizer: true }
    }

    /// The same, with a call of a model that fails.
    pub fn failing_at(self, call: usize) -> Self {
        Self { fails_at: Some(call), ..self }
    }

    /// The same, without a tokenizer.
    pub fn without_tokenizer(self) -> Self {
        Self { has_tokenizer: false, ..self }
    }

    /// The machine that its models run on.
    pub fn machine(&self) -> Machine {
        self.fails_at.map_or_else(|| Machine::new(COSTS), |call| Machine::failing_at(COSTS, call))
    }

    /// The memory of the model of the configuration in this place. Neither the order nor the steps are even.
    pub fn memory_mib(place: usize) -> f64 {
        (bytes(place, TensorKind::Parameter) + bytes(place, TensorKind::Buffer)) as f64 / f64::from(1 << 20)
    }

    /// A token that says which configuration's model speaks, after which prompt, and how often it has read that before.
    pub fn token(place: usize, prompt: &[u32], times: usize) -> u32 {
        let of_prompt = prompt.iter().map(|&id| id as usize).sum::<usize>() + prompt.len();
        621 + (place * 560 + of_prompt % 28 * 20 + times.min(19)) as u32
    }
}

/// Mebibytes of scales, which the footprint leaves out.
pub(super) const SCALES_MIB: f64 = 0.75;

fn settings(model_id: &str, max_new_tokens: usize, num_timing_runs: usize, prompts: &[&str]) -> ExperimentSettings {
    ExperimentSettings {
        model_id: model_id.to_owned(),
        prompts: prompts.iter().map(|&prompt| prompt.to_owned()).collect(),
        max_new_tokens,
        num_timing_runs,
    }
}

fn tensors(place: usize) -> Vec<TensorInfo> {
    let rows = [1408, 320, 704, 192, 1000, 448][place % 6];
    let embedding = TensorInfo::plain("wte.weight", TensorKind::Parameter, &[512, 1024], 4);
    let head =
        TensorInfo { name: "lm_head.weight".to_owned(), tied_to: Some(embedding.name.clone()), ..embedding.clone() };
    vec![
        embedding,
        TensorInfo::plain("h.0.mlp.c_fc.weight", TensorKind::Parameter, &[rows, 1024], 1 + place % 2),
        TensorInfo::plain("h.0.attn.bias", TensorKind::Buffer, &[1, 1, 512, 1024], 1),
        head,
    ]
}

/// The bytes of a model's tensors of this kind, those that are tied left out.
fn bytes(place: usize, kind: TensorKind) -> usize {
    let own = tensors(place).into_iter().filter(|tensor| tensor.kind == kind && tensor.tied_to.is_none());
    own.map(|tensor| tensor.numel * tensor.element_size).sum()
}

/// A model in several formats, of which one cannot be loaded.
pub(super) struct FormatHub {
    machine: Machine,
    scenario: Scenario,
    pub tokenizer: Tokenizer,
    pub asked: RefCell<Vec<LoadOptions>>,
    /// Places of those that were loaded, in order.
    pub loaded: RefCell<Vec<usize>>,
}

impl FormatHub {
    pub fn new(machine: &Machine, scenario: &Scenario) -> Result<Self> {
        Ok(Self {
            machine: machine.clone(),
            scenario: scenario.clone(),
            tokenizer: machine.tokenizer()?,
            asked: RefCell::default(),
            loaded: RefCell::default(),
        })
    }

    fn check_id(&self, model_id: &str) -> Result<()> {
        if model_id == self.scenario.settings.model_id {
            return Ok(());
        }
        Err(Error::source(format!("there is no model `{model_id}`")))
    }
}

impl ModelHub for FormatHub {
    fn tokenizer(&self, model_id: &str) -> Result<Tokenizer> {
        self.check_id(model_id)?;
        if !self.scenario.has_tokenizer {
            return Err(Error::source(format!("`{model_id}` has no tokenizer")));
        }
        Ok(self.tokenizer.clone())
    }

    fn model(&self, model_id: &str, options: &LoadOptions) -> Result<Box<dyn CausalLm>> {
        self.asked.borrow_mut().push(options.clone());
        self.check_id(model_id)?;
        let place = self.scenario.configurations.iter().position(|one| one.options == *options);
        let place = place.ok_or_else(|| Error::source("options that no configuration has"))?;
        if let Some((_, because)) = self.scenario.broken.filter(|(broken, _)| *broken == place) {
            return Err(Error::system(because));
        }
        self.loaded.borrow_mut().push(place);
        let (vocab_size, machine) = (self.tokenizer.vocab_size(), self.machine.clone());
        let model = ProbeModel::new(&self.machine, vocab_size).with_tensors(tensors(place)).with_info(|info| {
            info.parameter_bytes = bytes(place, TensorKind::Parameter);
            info.buffer_bytes = bytes(place, TensorKind::Buffer);
            info.quant_state_bytes = (SCALES_MIB * f64::from(1 << 20)) as usize;
        });
        Ok(Box::new(model.saying(move |_, _| one_of(said(place, &machine), vocab_size))))
    }
}

/// The token of the current generation: its prompt was the last to be read, and may have been read before.
fn said(place: usize, machine: &Machine) -> u32 {
    machine.look(|events, passes| {
        let loaded = events.iter().rposition(|event| *event == Event::Load).unwrap_or(0);
        let own = events[loaded..].iter().filter(|event| event.is_forward());
        let before = passes.len() - own.clone().count();
        let begins = |event: &Event| matches!(event, Event::Forward { past_len: 0, .. });
        let prompts = own.zip(&passes[before..]).filter(|(event, _)| begins(event)).map(|(_, pass)| &pass.ids);
        let Some(last) = prompts.clone().last() else { return Scenario::token(place, &[], 0) };
        Scenario::token(place, last, prompts.filter(|prompt| *prompt == last).count() - 1)
    })
}

/// A machine's clock that runs unevenly, so that no two runs take the same time, and that remembers what it showed.
pub(super) struct UnevenClock {
    clock: ProbeClock,
    /// What it showed, in order.
    pub shown: RefCell<Vec<f64>>,
    ahead: RefCell<f64>,
}

impl UnevenClock {
    pub fn new(machine: &Machine) -> Self {
        Self { clock: machine.clock(), shown: RefCell::default(), ahead: RefCell::default() }
    }
}

impl Clock for UnevenClock {
    fn now(&self) -> f64 {
        let mut shown = self.shown.borrow_mut();
        let mut ahead = self.ahead.borrow_mut();
        *ahead += 0.03 * f64::from((shown.len() as i32 * 5 + 3) % 11).powi(3);
        let now = self.clock.now() + *ahead;
        shown.push(now);
        now
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Otherwise a wrong text could pass for the right one.
    #[test]
    fn every_text_is_one_of_its_own() {
        let tokenizer = Machine::new(COSTS).tokenizer().unwrap();
        for Scenario { configurations, settings, .. } in Scenario::all() {
            let mut texts = HashSet::new();
            for place in 0..configurations.len() {
                let mut prompts = settings.prompts.clone();
                prompts.sort();
                prompts.dedup();
                for prompt in &prompts {
                    for times in 0..=settings.num_timing_runs {
                        let ids = tokenizer.encode(prompt).unwrap();
                        let said = vec![Scenario::token(place, &ids, times); settings.max_new_tokens];
                        let text = tokenizer.decode(&said).unwrap();
                        assert!(!text.trim().is_empty());
                        assert!(texts.insert(text.trim().to_owned()), "{text:?} twice");
                    }
                }
            }
        }
    }

    /// Otherwise the mean of the runs could be their median, or one of them.
    #[test]
    fn runs_take_times_that_are_far_apart() {
        let clock = UnevenClock::new(&Machine::new(COSTS));
        let readings: Vec<f64> = (0..60).map(|_| clock.now()).collect();
        let runs: Vec<f64> = readings.chunks(2).map(|pair| pair[1] - pair[0]).collect();
        for count in [3, 5] {
            for runs in runs.windows(count) {
                let mean = runs.iter().sum::<f64>() / count as f64;
                let mut sorted = runs.to_vec();
                sorted.sort_by(f64::total_cmp);
                assert!(sorted.iter().all(|run| (run - mean).abs() > 0.005 * (mean + 8.0)), "{runs:?}");
            }
        }
    }
}

//! Rotary positions: by which angles queries and keys are turned, and in which layers.
//!
//! Source: `ROPE_INIT_FUNCTIONS` in transformers `modeling_rope_utils.py`.

use std::f32::consts::PI;

use serde::Deserialize;

use super::Rotation;
use crate::error::{Error, Result};

/// `rope_parameters` in a config, or `rope_scaling` in an older one.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
pub(super) struct RopeParameters {
    rope_type: Option<String>,
    /// The older name; transformers writes both.
    r#type: Option<String>,
    rope_theta: Option<f32>,
    pub partial_rotary_factor: Option<f64>,
    factor: Option<f32>,
    low_freq_factor: Option<f32>,
    high_freq_factor: Option<f32>,
    pub original_max_position_embeddings: Option<f32>,
    short_factor: Option<Vec<f32>>,
    /// Those of texts beyond `original_max_position_embeddings`, which are not computed here.
    long_factor: Option<Vec<f32>>,
    attention_factor: Option<f32>,
    /// Where layers differ, those of the layers that see everything, and of those with a window.
    pub full_attention: Option<Box<Self>>,
    pub sliding_attention: Option<Box<Self>>,
}

impl RopeParameters {
    /// The base of the angles, which may be `beside` instead.
    pub fn theta(&self, beside: Option<f32>) -> f32 {
        self.rope_theta.or(beside).unwrap_or(10_000.0)
    }

    pub fn kind(&self) -> &str {
        self.rope_type.as_deref().or(self.r#type.as_deref()).unwrap_or("default")
    }

    /// Whether the angles change for texts beyond a certain length.
    pub fn depends_on_length(&self) -> bool {
        ["longrope", "su"].contains(&self.kind())
    }

    /// The angles of the first `width` numbers of a head: `theta^(-2i / width)` for pair i, with the change that is
    /// named here for models whose context was lengthened after training to `context_len`.
    ///
    /// # Errors
    /// An odd width; numbers that are missing or out of range; a kind of change that is not known.
    pub fn rotation(&self, theta: f32, width: usize, context_len: usize) -> Result<Rotation> {
        if width == 0 || !width.is_multiple_of(2) || width > 1 << 16 {
            return Err(Error::format(format!("rotary positions turn pairs of a head's numbers, not {width} numbers")));
        }
        if !(theta.is_finite() && theta > 0.0) {
            return Err(Error::format(format!("`rope_theta` is {theta}; it must be positive")));
        }
        let mut frequencies: Vec<f32> =
            (0..width / 2).map(|i| 1.0 / theta.powf((2 * i) as f32 / width as f32)).collect();
        let factor = self.apply(&mut frequencies, context_len)?;
        if !(factor.is_finite() && frequencies.iter().all(|frequency| frequency.is_finite())) {
            return Err(Error::format(format!("rotary positions turn infinitely fast with `rope_theta` {theta}"))
                .hint("compare `rope_theta` and `rope_scaling` with the original config"));
        }
        Ok(Rotation { frequencies, factor })
    }

    /// What a GGUF file has for the change of such a [`rotation`](Self::rotation), which is one that can be made.
    ///
    /// # Errors
    /// Numbers for longer texts that are not there, or are not as many.
    pub fn scaling(&self, theta: f32, rotation: &Rotation) -> Result<RopeScaling> {
        let pairs = rotation.frequencies.len();
        Ok(match self.kind() {
            "linear" => RopeScaling::Linear(self.factor.unwrap_or(1.0)),
            "llama3" => RopeScaling::Divided(self.divisors(theta, pairs)),
            "longrope" | "su" => {
                let long = self.long_factor.clone().filter(|long| long.len() == pairs).ok_or_else(|| {
                    Error::format(format!("`rope_scaling` does not have {pairs} numbers in `long_factor`"))
                })?;
                let short = self.short_factor.clone().unwrap_or_default();
                RopeScaling::ByLength { short, long, factor: rotation.factor }
            }
            _ => RopeScaling::Plain,
        })
    }

    /// What `llama3` divides frequencies by, in the steps that llama.cpp's `convert_hf_to_gguf.py` takes, in float32.
    fn divisors(&self, theta: f32, pairs: usize) -> Vec<f32> {
        let [factor, low, high, trained] =
            [self.factor, self.low_freq_factor, self.high_freq_factor, self.original_max_position_embeddings]
                .map(|number| number.unwrap_or(1.0));
        let (longest, shortest) = (trained / low, trained / high);
        let divisor = |i: usize| {
            let frequency = 1.0 / theta.powf((2 * i) as f32 / (2 * pairs) as f32);
            let wavelength = 1.0 / frequency * (2.0 * PI);
            if wavelength < shortest {
                return 1.0;
            }
            if wavelength > longest {
                return factor;
            }
            let smooth = (1.0 / wavelength * trained - low) / (high - low);
            1.0 / ((1.0 - smooth) / factor + smooth)
        };
        (0..pairs).map(divisor).collect()
    }

    /// Changes the plain frequencies; what cosines and sines are multiplied by.
    fn apply(&self, frequencies: &mut [f32], context_len: usize) -> Result<f32> {
        let number = |name: &str, value: Option<f32>| {
            let value = value.filter(|value| value.is_finite() && *value > 0.0);
            value.ok_or_else(|| Error::format(format!("`rope_scaling` needs a positive `{name}`")))
        };
        let trained = || number("original_max_position_embeddings", self.original_max_position_embeddings);
        match self.kind() {
            "default" => {}
            "linear" => {
                let factor = number("factor", self.factor)?;
                frequencies.iter_mut().for_each(|frequency| *frequency /= factor);
            }
            "llama3" => {
                let (factor, trained) = (number("factor", self.factor)?, trained()?);
                let low = number("low_freq_factor", self.low_freq_factor)?;
                let high = number("high_freq_factor", self.high_freq_factor)?;
                if high <= low {
                    return Err(Error::format(format!(
                        "`high_freq_factor` is {high}; it must be above `low_freq_factor`, which is {low}"
                    )));
                }
                // Rotations slower than one turn in the context that the model was trained on are slowed down, fast
                // ones are left alone, and the transition between the two is smooth.
                for frequency in frequencies {
                    let turns = trained * *frequency / (2.0 * PI);
                    let smooth = ((turns - low) / (high - low)).clamp(0.0, 1.0);
                    *frequency = (1.0 - smooth) * *frequency / factor + smooth * *frequency;
                }
            }
            // The factors of texts that are no longer than those of the training.
            "longrope" | "su" => {
                let (factors, trained) = (self.short_factor.as_deref().unwrap_or(&[]), trained()?);
                if factors.len() != frequencies.len() {
                    return Err(Error::format(format!(
                        "`rope_scaling` has {} numbers in `short_factor` for {} frequencies",
                        factors.len(),
                        frequencies.len()
                    )));
                }
                for (frequency, &factor) in frequencies.iter_mut().zip(factors) {
                    *frequency /= number("short_factor", Some(factor))?;
                }
                let trained = f64::from(trained);
                let longer = self.factor.map_or(context_len as f64 / trained, f64::from);
                return match self.attention_factor {
                    Some(factor) => number("attention_factor", Some(factor)),
                    None if longer <= 1.0 => Ok(1.0),
                    None => Ok((1.0 + longer.ln() / trained.ln()).sqrt() as f32),
                };
            }
            other => {
                return Err(Error::format(format!("unknown `rope_type` {other:?}"))
                    .hint("`default`, `linear`, `llama3` and `longrope` are supported"));
            }
        }
        Ok(1.0)
    }
}

/// How rotary angles are changed, as a GGUF file has it.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::model) enum RopeScaling {
    Plain,
    /// All are divided by this.
    Linear(f32),
    /// Each is divided by a number of its own.
    Divided(Vec<f32>),
    /// By other numbers in texts that are longer than those of the training, and what is rotated is multiplied by a factor.
    ByLength {
        short: Vec<f32>,
        long: Vec<f32>,
        factor: f32,
    },
}

//! Settings of a `generation_config.json` that change what transformers generates, and that nothing here computes.

use serde_json::{Map, Value};

use crate::error::{Error, Result};

/// Each with the number that changes nothing, and whether only sampling needs it. (A number for what is a list or an
/// object is one that is never there.)
///
/// `min_length` and `forced_bos_token_id` are about texts that begin with nothing.
///
/// Source: `_get_logits_processor` in transformers `generation/utils.py`.
const NOT_COMPUTED: [(&str, f64, bool); 18] = [
    ("min_p", 0.0, true),
    ("top_h", 0.0, true),
    ("typical_p", 1.0, true),
    ("epsilon_cutoff", 0.0, true),
    ("eta_cutoff", 0.0, true),
    ("no_repeat_ngram_size", 0.0, false),
    ("encoder_no_repeat_ngram_size", 0.0, false),
    ("encoder_repetition_penalty", 1.0, false),
    ("penalty_alpha", 0.0, false),
    ("guidance_scale", 1.0, false),
    ("num_beams", 1.0, false),
    ("bad_words_ids", f64::NAN, false),
    ("suppress_tokens", f64::NAN, false),
    ("begin_suppress_tokens", f64::NAN, false),
    ("sequence_bias", f64::NAN, false),
    ("exponential_decay_length_penalty", f64::NAN, false),
    ("forced_eos_token_id", f64::NAN, false),
    ("watermarking_config", f64::NAN, false),
];

/// Refuses a file by which transformers would reply otherwise.
///
/// # Errors
/// It has one of these settings; the error names it.
pub(super) fn check(keys: &Map<String, Value>, do_sample: bool) -> Result<()> {
    let changes = |value: &Value, neutral: f64| match value {
        Value::Null | Value::Bool(false) => false,
        Value::Array(values) => !values.is_empty(),
        Value::Object(values) => !values.is_empty(),
        value => value.as_f64() != Some(neutral),
    };
    let found =
        NOT_COMPUTED.iter().filter(|(_, _, of_sampling)| do_sample || !of_sampling).find_map(|(key, neutral, _)| {
            let value = keys.get(*key).filter(|value| changes(value, *neutral))?;
            Some((key, value))
        });
    match found {
        None => Ok(()),
        Some((key, value)) => {
            let value = if value.is_number() { format!("is {value}") } else { "is set".to_owned() };
            Err(Error::format(format!("`{key}` {value}, which changes what is generated and is not computed here"))
                .hint("to chat without it, remove it from a copy of the model; transformers' replies will differ"))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_changes_nothing_is_no_error() {
        let checked = |keys: Value, do_sample| check(keys.as_object().unwrap(), do_sample);
        let neutral = json!({
            "min_p": null, "typical_p": 1.0, "epsilon_cutoff": 0, "num_beams": 1, "bad_words_ids": [],
            "penalty_alpha": 0.0, "guidance_scale": null, "transformers_version": "5.0.0", "max_length": 20,
        });
        checked(neutral, true).unwrap();
        checked(json!({ "min_p": 0.1, "typical_p": 0.5 }), false).unwrap();
        for (keys, said) in [
            (json!({ "min_p": 0.1 }), "`min_p` is 0.1"),
            (json!({ "no_repeat_ngram_size": 3 }), "`no_repeat_ngram_size` is 3"),
            (json!({ "num_beams": 4 }), "`num_beams` is 4"),
            (json!({ "suppress_tokens": [1, 2] }), "`suppress_tokens` is set"),
        ] {
            let error = checked(keys, true).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}

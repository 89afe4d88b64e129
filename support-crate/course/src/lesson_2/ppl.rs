//! `compare_ppl`: what each model makes of the same texts, every token counted once.

use quantlab::error::Result;
use quantlab::measure::{PerplexityOptions, perplexity};
use quantlab::model::{CausalLm, Loaded, Tokenizer};
use quantlab::source::ModelFile;

use super::ModelPpl;
use super::expected::same;
use crate::cases::{as_strs, texts};
use crate::failures::{must_fail, passes_failures_on};
use crate::figure::{Figure, all_right, each_once, mean, weighted_mean};
use crate::probe::{Costs, Machine, ProbeModel, one_of};
use crate::{Complaint, Score, Verdict, ask};

/// A short text that is hard for the probe's models, a long one that they partly know, and two of medium length; not as
/// many texts as there are models. Texts of other kinds come after these.
const TEXTS: [&str; 4] = [
    "A fox",
    "the the the the the the the the the the the the",
    "Once upon a time",
    "the fox sat by the door, the door",
];
/// One name contains the other, and they are not in order.
const LABELS: [&str; 3] = ["static int8", "int8", "float32"];
/// How sure each model is.
const CERTAINTIES: [f32; 3] = [1.0, 2.0, 1.5];

/// A tokenizer that turns each word into one token, and most words into the same one.
const WORDS: &[u8] = br#"{"version": "1.0", "pre_tokenizer": {"type": "Whitespace"}, "model":
    {"type": "WordLevel", "vocab": {"?": 0, "the": 1, "fox": 2}, "unk_token": "?"}}"#;

const HINTS: [&str; 3] = [
    "A text of two tokens and one of two hundred: how much should each count in the loss of both together?",
    "Add up `mean_nll * tokens` and `tokens` over the texts, then divide once. Only that quotient goes into `exp`.",
    "`perplexity(loaded, texts, &PerplexityOptions::default())?` takes all texts at once: `loss` is its `mean_nll`, \
     `ppl` is `loss.exp()`.",
];

type Answer<'a> = dyn Fn(&[(&str, &Loaded)], &[&str]) -> Result<Vec<ModelPpl>> + 'a;

/// Checks `compare_ppl(models, texts)`.
pub fn check_compare_ppl(yours: fn(&[(&str, &Loaded)], &[&str]) -> Result<Vec<ModelPpl>>) -> Score {
    let texts = texts();
    let long = texts[3].repeat(6);
    let trials = Trial::run(&yours, &TEXTS, LABELS.len()).and_then(|first| {
        // Of every kind, for a single model; a long one with a short one, and one text for two.
        let others: [(&[&str], usize); 3] = [(&as_strs(&texts), 1), (&[TEXTS[0], &long], 1), (&TEXTS[2..3], 2)];
        let others = others.into_iter().map(|(texts, models)| Trial::run(&yours, texts, models));
        [Ok(first)].into_iter().chain(others).collect()
    });
    Score::new("compare_ppl", HINTS)
        .each(
            &trials,
            &[
                ("a row for each model, under its label", Trial::is_labelled),
                ("each row is that of its own model", Trial::is_own),
                ("the loss is the mean over all tokens of all texts", Trial::is_token_weighted),
                ("ppl is exp(loss)", Trial::is_exp),
            ],
        )
        .about(&trials, "a model that fails on a text is an error, and so is having nothing to predict", |trials| {
            passes_errors_on(&yours, &trials[0])
        })
}

struct Trial {
    rows: Vec<ModelPpl>,
    expected: Vec<Expected>,
    /// Some of the calls of models, each of which can fail.
    some_calls: Vec<usize>,
}

/// What a model's row should say, and what it may say instead.
struct Expected {
    loss: f64,
    /// The losses of all texts joined into one.
    joined: Vec<f64>,
    /// The loss with each different text counted once.
    distinct: f64,
    /// The loss without the spaces around the texts.
    trimmed: f64,
    texts: Vec<TextLoss>,
}

/// The loss of a single text.
struct TextLoss {
    loss: f64,
    /// How many of its tokens are predicted.
    tokens: usize,
    characters: usize,
    bytes: usize,
    words: usize,
}

impl Expected {
    fn of(loaded: &Loaded, texts: &[&str]) -> Result<Self, Complaint> {
        let measure = |texts: &[&str]| perplexity(loaded, texts, &PerplexityOptions::default());
        let loss_of = |texts: &[&str]| Ok::<_, Complaint>(measure(texts)?.mean_nll);
        let of_text = |text: &&str| {
            let one = measure(&[text])?;
            Ok(TextLoss {
                loss: one.mean_nll,
                tokens: one.tokens,
                characters: text.chars().count(),
                bytes: text.len(),
                words: text.split_whitespace().count(),
            })
        };
        Ok(Self {
            loss: loss_of(texts)?,
            joined: ["\n\n", "\n", " ", ""].iter().map(|by| loss_of(&[&texts.join(by)])).collect::<Result<_, _>>()?,
            distinct: loss_of(&each_once(texts.iter().copied()))?,
            trimmed: loss_of(&texts.iter().map(|text| text.trim()).collect::<Vec<_>>())?,
            texts: texts.iter().map(of_text).collect::<Result<_>>()?,
        })
    }

    /// The mean of the texts' losses, weighted like this.
    fn weighted(&self, weights: impl Iterator<Item = usize>) -> f64 {
        weighted_mean(self.texts.iter().map(|text| text.loss), weights)
    }

    fn mean_of_ppl(&self) -> f64 {
        mean(self.texts.iter().map(|text| text.loss.exp()))
    }

    /// What well-known mistakes give in place of the loss; `others` are the models.
    fn mistakes(&self, others: &[Self]) -> Vec<(f64, &'static str)> {
        let by = |weight: fn(&TextLoss) -> usize| self.weighted(self.texts.iter().map(weight));
        let by_length = "each text was weighted by its length in characters, bytes or words; its weight is the number \
                         of tokens that are predicted";
        let joined = "that is the loss of all texts joined into one, in which each but the first is predicted after \
                      another text";
        let mut mistakes = vec![
            (
                by(|_| 1),
                "that is the mean of the texts' means, in which a token of a short text counts for more than one of a long \
                 text",
            ),
            (by(|text| text.characters), by_length),
            (by(|text| text.bytes), by_length),
            (by(|text| text.words), by_length),
            (
                by(|text| text.tokens + 1),
                "each text was weighted by all its tokens, of which the first is not predicted",
            ),
            (
                self.mean_of_ppl().ln(),
                "that comes from the mean of the texts' perplexities, which one hard text dominates",
            ),
            (self.loss / std::f64::consts::LN_2, "that is in bits; perplexity's exp needs nats"),
            (self.distinct, "a text that comes twice was counted once"),
            (self.trimmed, "the spaces around the texts were cut off, and they are tokens too"),
        ];
        mistakes.extend(self.joined.iter().map(|&loss| (loss, joined)));
        mistakes.extend(self.texts.iter().map(|text| (text.loss, "that is one text's loss; where are the others?")));
        mistakes.extend(others.iter().map(|other| {
            let theirs = self.weighted(other.texts.iter().map(|text| text.tokens));
            (theirs, "its texts were weighted by the tokens of another model, whose tokenizer may differ")
        }));
        mistakes
    }
}

/// A model that expects `the` after everything, with this certainty.
fn expecting_the(machine: &Machine, tokenizer: Tokenizer, certainty: f32) -> Result<Loaded, Complaint> {
    let (the, vocab_size) = (tokenizer.encode(" the")?[0], tokenizer.vocab_size());
    let model = ProbeModel::new(machine, vocab_size)
        .saying(move |_, _| one_of(the, vocab_size).into_iter().map(|logit| logit * certainty).collect());
    let model: Box<dyn CausalLm> = Box::new(model);
    Ok(Loaded::new(tokenizer, model, "probe", "float32")?)
}

/// The second model's tokens differ from those of the others.
fn models(machine: &Machine) -> Result<Vec<Loaded>, Complaint> {
    let words = || Tokenizer::read(&ModelFile::embedded("probe/tokenizer.json", WORDS));
    let tokenizers = [machine.tokenizer()?, words()?, machine.tokenizer()?];
    let models = tokenizers.into_iter().zip(CERTAINTIES);
    models.map(|(tokenizer, certainty)| expecting_the(machine, tokenizer, certainty)).collect()
}

fn call(yours: &Answer<'_>, models: &[Loaded], texts: &[&str]) -> Result<Vec<ModelPpl>, Complaint> {
    let labelled: Vec<(&str, &Loaded)> = LABELS.into_iter().zip(models).collect();
    ask(|| yours(&labelled, texts))
}

impl Trial {
    /// Runs the answer with the first few models.
    fn run(yours: &Answer<'_>, texts: &[&str], models: usize) -> Result<Self, Complaint> {
        let machine = Machine::new(Costs::PLAIN);
        let models = &self::models(&machine)?[..models];
        let rows = call(yours, models, texts)?;
        let some_calls = machine.some_calls().collect();
        let expected = models.iter().map(|loaded| Expected::of(loaded, texts)).collect::<Result<_, _>>()?;
        Ok(Self { rows, expected, some_calls })
    }

    /// Each model's row, and what it should say.
    fn pairs(&self) -> Result<Vec<(&ModelPpl, &Expected)>, Complaint> {
        let pair = |(label, expected)| match self.rows.iter().find(|row| row.label == label) {
            Some(row) => Ok((row, expected)),
            None => wrong!("no row is labelled {label:?}, as its model is"),
        };
        LABELS.into_iter().zip(&self.expected).map(pair).collect()
    }

    fn is_labelled(&self) -> Verdict {
        self.pairs()?;
        let models = self.expected.len();
        Complaint::unless(self.rows.len() == models, || {
            format!("{models} models were given, but {} rows came back", self.rows.len())
        })?;
        Complaint::unless(
            self.rows.iter().map(|row| row.label.as_str()).eq(LABELS.into_iter().take(models)),
            || "the rows are not in the order of the models",
        )
    }

    fn is_own(&self) -> Verdict {
        let pairs = self.pairs()?;
        for (index, (row, _)) in pairs.iter().enumerate() {
            if pairs[..index].iter().any(|(other, _)| same(other.loss, row.loss)) {
                return wrong!("two rows have the same loss, but the models differ: was one measured twice?");
            }
            let others = pairs.iter().enumerate().filter(|(other, _)| *other != index);
            if others.into_iter().any(|(_, (_, expected))| same(row.loss, expected.loss)) {
                return wrong!("the row {:?} has the loss of another model: are the labels swapped?", row.label);
            }
        }
        Ok(())
    }

    fn is_token_weighted(&self) -> Verdict {
        let figure = |(row, expected): (&ModelPpl, &Expected)| Figure {
            what: format!("the loss of {:?} over all tokens", row.label),
            got: row.loss,
            expected: expected.loss,
            mistakes: expected.mistakes(&self.expected),
        };
        all_right(&self.pairs()?.into_iter().map(figure).collect::<Vec<_>>(), same)
    }

    fn is_exp(&self) -> Verdict {
        let figure = |(row, expected): (&ModelPpl, &Expected)| Figure {
            what: format!("the ppl of {:?}, whose loss is {:.4},", row.label, row.loss),
            got: row.ppl,
            expected: row.loss.exp(),
            mistakes: vec![
                (expected.mean_of_ppl(), "that is the mean of the texts' perplexities, which one hard text dominates"),
                (row.loss.exp2(), "the loss is in nats, so the base is e, not 2"),
                (row.loss, "that is the loss itself; ppl is exp of it"),
            ],
        };
        all_right(&self.pairs()?.into_iter().map(figure).collect::<Vec<_>>(), same)
    }
}

fn passes_errors_on(yours: &Answer<'_>, trial: &Trial) -> Verdict {
    let answer = |machine: &Machine| call(yours, &models(machine)?, &TEXTS);
    passes_failures_on(Costs::PLAIN, trial.some_calls.iter().copied(), answer, |rows| {
        format!(
            "a model failed on one of the texts, but you returned {} rows as if all was well: the models would \
             be compared on different texts; pass errors on with `?`",
            rows.len()
        )
    })?;
    // No text, and none with more than one token.
    for texts in [&[][..], &["a"], &["", "a"]] {
        must_fail(call(yours, &models(&Machine::new(Costs::PLAIN))?, texts), |rows| {
            let losses: Vec<f64> = rows.iter().map(|row| row.loss).collect();
            format!(
                "the texts {texts:?} have no token to predict, but your rows have the losses {losses:?}: return an \
                 `Err`"
            )
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ways_to_average_differ() {
        let models = models(&Machine::new(Costs::PLAIN)).unwrap();
        let all: Vec<Expected> = models.iter().map(|loaded| Expected::of(loaded, &TEXTS).unwrap()).collect();
        let Expected { loss, .. } = all[0];
        let but_equal = |value: &f64| same(*value, loss);
        // TEXTS has neither a text that comes twice nor spaces around one, and one model's tokens are its own.
        assert_eq!(all[0].mistakes(&all).iter().filter(|(value, _)| but_equal(value)).count(), 4);
        let texts = texts();
        let of_all = Expected::of(&models[0], &as_strs(&texts)).unwrap();
        assert!(of_all.mistakes(&[]).iter().all(|(value, _)| (value - of_all.loss).abs() > 1e-4));
    }
}

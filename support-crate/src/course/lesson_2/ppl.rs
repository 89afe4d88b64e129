//! `compare_ppl`: what each model makes of the same texts, every token counted once.

use super::ModelPpl;
use super::expected::same;
use crate::course::probe::{Costs, Machine, ProbeModel, one_of};
use crate::course::{Check, Complaint, Score, ask};
use crate::error::Result;
use crate::measure::{PerplexityOptions, perplexity};
use crate::model::Loaded;

/// A short text that is hard for the probe's models, and a long one of which they know a part.
const TEXTS: [&str; 3] = ["A fox", "the the the the the the the the the the the the", "Once upon a time"];
const LABELS: [&str; 2] = ["plain", "sharper"];

const HINTS: [&str; 3] = [
    "A text of two tokens and one of two hundred: how much should each count in the loss of both together?",
    "Add up `mean_nll * tokens` and `tokens` over the texts, then divide once. Only that quotient goes into `exp`.",
    "`perplexity(loaded, texts, &PerplexityOptions::default())?` does all texts at once: `loss` is its `mean_nll`, \
     `ppl` is `loss.exp()`.",
];

/// Checks `compare_ppl(models, texts)`.
pub fn check_compare_ppl(yours: impl Fn(&[(&str, &Loaded)], &[&str]) -> Result<Vec<ModelPpl>>) -> Score {
    let trial = Trial::run(&yours);
    Check::new("compare_ppl", HINTS)
        .about(&trial, "a row for each model, under its label", Trial::is_labelled)
        .about(&trial, "each row is that of its own model", Trial::is_own)
        .about(&trial, "the loss is the mean over all tokens of all texts", Trial::is_token_weighted)
        .about(&trial, "ppl is exp(loss)", Trial::is_exp)
        .score()
}

struct Trial {
    rows: Vec<ModelPpl>,
    expected: Vec<Expected>,
}

/// What a model's row should say, and what it may say instead.
struct Expected {
    loss: f64,
    mean_of_means: f64,
    mean_of_ppl: f64,
    /// Of each text alone.
    single: Vec<f64>,
}

impl Expected {
    fn of(loaded: &Loaded) -> Result<Self, Complaint> {
        let loss_of = |texts: &[&str]| Ok(perplexity(loaded, texts, &PerplexityOptions::default())?.mean_nll);
        let single: Vec<f64> = TEXTS.iter().map(|text| loss_of(&[text])).collect::<Result<_, Complaint>>()?;
        let n = TEXTS.len() as f64;
        Ok(Self {
            loss: loss_of(&TEXTS)?,
            mean_of_means: single.iter().sum::<f64>() / n,
            mean_of_ppl: single.iter().map(|loss| loss.exp()).sum::<f64>() / n,
            single,
        })
    }
}

/// A model that expects `the` after everything, with so much certainty.
fn expecting_the(machine: &Machine, certainty: f32) -> Result<Loaded, Complaint> {
    let the = machine.tokenizer()?.encode(" the")?[0];
    Ok(machine.loaded(|model: ProbeModel| {
        let vocab_size = crate::model::CausalLm::info(&model).vocab_size;
        model.saying(move |_, _| one_of(the, vocab_size).into_iter().map(|logit| logit * certainty).collect())
    })?)
}

impl Trial {
    fn run(yours: &impl Fn(&[(&str, &Loaded)], &[&str]) -> Result<Vec<ModelPpl>>) -> Result<Self, Complaint> {
        let machine = Machine::new(Costs::default());
        let [plain, sharper] = [expecting_the(&machine, 1.0)?, expecting_the(&machine, 2.0)?];
        let rows = ask(|| yours(&[(LABELS[0], &plain), (LABELS[1], &sharper)], &TEXTS))?;
        let expected = vec![Expected::of(&plain)?, Expected::of(&sharper)?];
        Ok(Self { rows, expected })
    }

    fn row(&self, label: &str) -> Result<&ModelPpl, Complaint> {
        self.rows
            .iter()
            .find(|row| row.label == label)
            .ok_or_else(|| Complaint::wrong(format!("no row is labelled {label:?}, as its model is")))
    }

    fn pairs(&self) -> Result<Vec<(&ModelPpl, &Expected)>, Complaint> {
        LABELS.iter().zip(&self.expected).map(|(label, expected)| Ok((self.row(label)?, expected))).collect()
    }

    fn is_labelled(&self) -> Result<(), Complaint> {
        self.pairs()?;
        Complaint::unless(self.rows.len() == LABELS.len(), || {
            format!("{} models make {} rows", LABELS.len(), self.rows.len())
        })
    }

    fn is_own(&self) -> Result<(), Complaint> {
        let pairs = self.pairs()?;
        let [(first, plain), (second, sharper)] = pairs.as_slice() else { return self.is_labelled() };
        if same(first.loss, second.loss) {
            return Err(Complaint::wrong(
                "both rows have the same loss, but the models differ: was one measured twice?",
            ));
        }
        Complaint::unless(
            !(same(first.loss, sharper.loss) || same(second.loss, plain.loss)),
            || "a row has the loss of the other model: are the labels swapped?",
        )
    }

    fn is_token_weighted(&self) -> Result<(), Complaint> {
        for (row, expected) in self.pairs()? {
            if same(row.loss, expected.loss) {
                continue;
            }
            let why = if same(row.loss, expected.mean_of_means) {
                ": that is the mean of the texts' means, in which a token of a short text counts for more than one of \
                 a long text"
            } else if expected.single.iter().any(|&loss| same(row.loss, loss)) {
                ": that is one text's loss, where are the others?"
            } else if same(row.loss, expected.loss / std::f64::consts::LN_2) {
                ": that is in bits; perplexity's exp needs nats"
            } else {
                ""
            };
            return Err(Complaint::wrong(format!(
                "the loss of {:?} is {:.4} over all tokens, yours says {:.4}{why}",
                row.label, expected.loss, row.loss
            )));
        }
        Ok(())
    }

    fn is_exp(&self) -> Result<(), Complaint> {
        for (row, expected) in self.pairs()? {
            if same(row.ppl, row.loss.exp()) {
                continue;
            }
            let why = if same(row.ppl, expected.mean_of_ppl) {
                ": that is the mean of the texts' perplexities, which one hard text decides alone"
            } else {
                ""
            };
            return Err(Complaint::wrong(format!(
                "exp({:.4}) is {:.4}, your ppl is {:.4}{why}",
                row.loss,
                row.loss.exp(),
                row.ppl
            )));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ways_to_average_differ() {
        let machine = Machine::new(Costs::default());
        let Expected { loss, mean_of_means, mean_of_ppl, .. } =
            Expected::of(&expecting_the(&machine, 1.0).unwrap()).unwrap();
        assert!((loss - mean_of_means).abs() > 0.1 && (loss.exp() - mean_of_ppl).abs() > 1.0);
    }
}

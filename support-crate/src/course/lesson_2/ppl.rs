//! `compare_ppl`: what each model makes of the same texts, every token counted once.

use super::ModelPpl;
use super::expected::same;
use crate::course::probe::{Costs, Machine, ProbeModel, one_of};
use crate::course::{Check, Complaint, Score, ask, must_fail};
use crate::error::Result;
use crate::measure::{PerplexityOptions, perplexity};
use crate::model::{CausalLm, Loaded, Tokenizer};
use crate::source::ModelFile;

/// A short text that is hard for the probe's models, a long one of which they know a part, and two of middle length:
/// not as many as there are models.
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

/// A tokenizer to which each word is a token, and most are the same one.
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
pub fn check_compare_ppl(yours: impl Fn(&[(&str, &Loaded)], &[&str]) -> Result<Vec<ModelPpl>>) -> Score {
    let trial = Trial::run(&yours);
    Check::new("compare_ppl", HINTS)
        .about(&trial, "a row for each model, under its label", Trial::is_labelled)
        .about(&trial, "each row is that of its own model", Trial::is_own)
        .about(&trial, "the loss is the mean over all tokens of all texts", Trial::is_token_weighted)
        .about(&trial, "ppl is exp(loss)", Trial::is_exp)
        .about(&trial, "a model that fails on a text is an error, and so is nothing to predict", |trial| {
            passes_errors_on(&yours, trial.calls)
        })
        .score()
}

struct Trial {
    rows: Vec<ModelPpl>,
    expected: Vec<Expected>,
    /// Calls of models, each of which can fail.
    calls: usize,
}

/// What a model's row should say, and what it may say instead.
struct Expected {
    loss: f64,
    mean_of_means: f64,
    mean_of_ppl: f64,
    /// All texts joined to one.
    joined: f64,
    /// Of each text alone, and how many tokens of it are predicted.
    single: Vec<f64>,
    tokens: Vec<usize>,
}

impl Expected {
    fn of(loaded: &Loaded) -> Result<Self, Complaint> {
        let measure = |texts: &[&str]| perplexity(loaded, texts, &PerplexityOptions::default());
        let loss_of = |texts: &[&str]| Ok::<_, Complaint>(measure(texts)?.mean_nll);
        let of_texts = TEXTS.iter().map(|text| measure(&[text])).collect::<Result<Vec<_>>>()?;
        let (single, tokens): (Vec<f64>, Vec<usize>) = of_texts.iter().map(|one| (one.mean_nll, one.tokens)).unzip();
        let n = TEXTS.len() as f64;
        Ok(Self {
            loss: loss_of(&TEXTS)?,
            mean_of_means: single.iter().sum::<f64>() / n,
            mean_of_ppl: single.iter().map(|loss| loss.exp()).sum::<f64>() / n,
            joined: loss_of(&[&TEXTS.join("\n\n")])?,
            single,
            tokens,
        })
    }

    /// The loss if another model's tokens are what a text counts for.
    fn weighted_by(&self, tokens: &[usize]) -> f64 {
        let nll: f64 = self.single.iter().zip(tokens).map(|(loss, &tokens)| loss * tokens as f64).sum();
        nll / tokens.iter().sum::<usize>() as f64
    }
}

/// A model that expects `the` after everything, with so much certainty.
fn expecting_the(machine: &Machine, tokenizer: Tokenizer, certainty: f32) -> Result<Loaded, Complaint> {
    let (the, vocab_size) = (tokenizer.encode(" the")?[0], tokenizer.vocab_size());
    let model = ProbeModel::new(machine, vocab_size)
        .saying(move |_, _| one_of(the, vocab_size).into_iter().map(|logit| logit * certainty).collect());
    let model: Box<dyn CausalLm> = Box::new(model);
    Ok(Loaded::new(tokenizer, model, "probe", "float32")?)
}

/// The second one has other tokens than the rest.
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
    fn run(yours: &Answer<'_>) -> Result<Self, Complaint> {
        let machine = Machine::new(Costs::default());
        let models = models(&machine)?;
        let rows = call(yours, &models, &TEXTS)?;
        let calls = machine.calls();
        Ok(Self { rows, expected: models.iter().map(Expected::of).collect::<Result<_, _>>()?, calls })
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
        })?;
        Complaint::unless(
            self.rows.iter().map(|row| row.label.as_str()).eq(LABELS),
            || "the rows are not in the order of the models",
        )
    }

    fn is_own(&self) -> Result<(), Complaint> {
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

    fn is_token_weighted(&self) -> Result<(), Complaint> {
        for (row, expected) in self.pairs()? {
            if same(row.loss, expected.loss) {
                continue;
            }
            let others = self.expected.iter().map(|other| expected.weighted_by(&other.tokens));
            let why = if same(row.loss, expected.mean_of_means) {
                ": that is the mean of the texts' means, in which a token of a short text counts for more than one of \
                 a long text"
            } else if expected.single.iter().any(|&loss| same(row.loss, loss)) {
                ": that is one text's loss, where are the others?"
            } else if same(row.loss, expected.joined) {
                ": that is the loss of all texts joined to one, in which each but the first is predicted after another \
                 text"
            } else if same(row.loss, expected.loss / std::f64::consts::LN_2) {
                ": that is in bits; perplexity's exp needs nats"
            } else if others.into_iter().any(|loss| same(row.loss, loss)) {
                ": its texts were weighted with the tokens of another model, whose tokenizer may be another one"
            } else {
                ""
            };
            return wrong!(
                "the loss of {:?} is {:.4} over all tokens, yours says {:.4}{why}",
                row.label,
                expected.loss,
                row.loss
            );
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
            return wrong!("exp({:.4}) is {:.4}, your ppl is {:.4}{why}", row.loss, row.loss.exp(), row.ppl);
        }
        Ok(())
    }
}

fn passes_errors_on(yours: &Answer<'_>, calls: usize) -> Result<(), Complaint> {
    for at in 0..calls {
        let failing = models(&Machine::failing_at(Costs::default(), at))?;
        must_fail(call(yours, &failing, &TEXTS), |rows| {
            format!(
                "a model failed on one of the texts, but you returned {} rows as if all was well: the models would \
                 be compared on different texts; pass errors on with `?`",
                rows.len()
            )
        })?;
    }
    must_fail(call(yours, &models(&Machine::new(Costs::default()))?, &[]), |rows| {
        let losses: Vec<f64> = rows.iter().map(|row| row.loss).collect();
        format!("without texts there is no token to predict, but your rows have the losses {losses:?}: return an `Err`")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ways_to_average_differ() {
        let machine = Machine::new(Costs::default());
        let [first, other, _] = &models(&machine).unwrap()[..] else { panic!() };
        let expected = Expected::of(first).unwrap();
        let by_other = expected.weighted_by(&Expected::of(other).unwrap().tokens);
        let Expected { loss, mean_of_means, mean_of_ppl, joined, .. } = expected;
        assert!((loss - by_other).abs() > 0.01);
        assert!((loss - mean_of_means).abs() > 0.1 && (loss.exp() - mean_of_ppl).abs() > 1.0);
        assert!((loss - joined).abs() > 0.01);
    }
}

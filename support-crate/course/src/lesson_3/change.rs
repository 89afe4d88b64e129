//! `compare_texts`: two models on the same texts, token by token.

use quantlab::error::{Error, Result};
use quantlab::model::Loaded;

use super::divergence::{kl, logs};
use super::{TextChange, is_close, nll};
use crate::cases::{as_strs, texts};
use crate::failures::{must_fail, passes_failures_on};
use crate::figure::{Figure, all_right};
use crate::probe::{Costs, Machine, ProbeModel};
use crate::{Complaint, Score, Verdict, ask};

const HINTS: [&str; 3] = [
    "Both models read the same ids. What do you need of the two rows of logits that predict token t?",
    "For each text of at least two tokens: its ids once, a forward pass of each model over them, and for every token \
     from the second on the rows at t - 1 of both. Three sums and a count; push them when the text is done.",
    "`let (p, q) = (p.row(0, t - 1), q.row(0, t - 1)); change.loss_change += log_softmax_at(p, ids[t]) - \
     log_softmax_at(q, ids[t]); change.divergence += kl_divergence(p, q);`. The most likely token is \
     `(0..row.len()).max_by(|&a, &b| row[a].total_cmp(&row[b]))`.",
];

type Answer<'a> = dyn Fn(&Loaded, &Loaded, &[&str]) -> Result<Vec<TextChange>> + 'a;

/// Checks `compare_texts(base, other, texts)`.
pub fn check_compare_texts(yours: fn(&Loaded, &Loaded, &[&str]) -> Result<Vec<TextChange>>) -> Score {
    let all = texts();
    let all = as_strs(&all);
    let with_short: Vec<&str> = [""].into_iter().chain(all[..3].iter().copied()).chain(["assert", all[4]]).collect();
    let trial = Trial::run(&yours, &all);
    Score::new("compare_texts", HINTS)
        .about(&trial, "there is a `TextChange` for each text, with the tokens that were predicted", Trial::counts)
        .about(&trial, "`loss_change` is the other model's loss less the base model's, added up", |trial| {
            all_right(&trial.figures(Trial::loss_change), is_close)
        })
        .about(&trial, "`divergence` is the KL divergence from the base model, added up", |trial| {
            all_right(&trial.figures(Trial::divergence), is_close)
        })
        .about(&trial, "`same_top` counts the places where both find the same token the most likely", |trial| {
            all_right(&trial.figures(Trial::same_top), is_close)
        })
        .about(&trial, "texts with nothing to predict are left out", |_| Trial::run(&yours, &with_short)?.counts())
        .about(&trial, "an error of model or tokenizer is passed on", |trial| {
            let unreadable = || {
                let (mut base, mut other) = pair(&Machine::new(Costs::PLAIN))?;
                base.tokenizer = Machine::failing_tokenizer()?;
                other.tokenizer = Machine::failing_tokenizer()?;
                ask(|| yours(&base, &other, &all))
            };
            must_fail(unreadable(), |changes| {
                format!("the tokenizer failed, and you return {} texts: let `?` pass the error on", changes.len())
            })?;
            let answer = |machine: &Machine| {
                let (base, other) = pair(machine)?;
                ask(|| yours(&base, &other, &all))
            };
            passes_failures_on(Costs::PLAIN, 0..trial.calls, answer, |changes| {
                format!("a model failed, and you return {} texts as if all was well: let `?` pass it on", changes.len())
            })
        })
}

/// What the base says after a token at a position. No two logits are the same.
fn base_logits(id: u32, position: usize, vocab_size: usize) -> Vec<f32> {
    let sureness = 2.0 + (0.3 * position as f32).min(8.0);
    (0..vocab_size).map(|v| sureness * ((id as usize * 31 + v * 1709 + position * 7) % 4099) as f32 / 4099.0).collect()
}

/// What the other model says: less sure, and in a third of the places it raises a token, which often comes out on top; now
/// and then the first or the last of the vocabulary, which then does.
fn other_logits(id: u32, position: usize, vocab_size: usize) -> Vec<f32> {
    let mut logits: Vec<f32> = base_logits(id, position, vocab_size).into_iter().map(|logit| 0.8 * logit).collect();
    if (id as usize + position).is_multiple_of(3) {
        let (token, by) = match position % 6 {
            1 => (0, 9.0),
            4 => (vocab_size - 1, 9.0),
            _ => ((id as usize * 13 + position * 5) % vocab_size, 1.0 + (0.15 * position as f32).min(4.0)),
        };
        logits[token] += by;
    }
    logits
}

/// Both models, on one machine.
fn pair(machine: &Machine) -> Result<(Loaded, Loaded)> {
    let saying = |logits: fn(u32, usize, usize) -> Vec<f32>| {
        machine.loaded(|model: ProbeModel| {
            let vocab_size = machine.tokenizer().map_or(0, |tokenizer| tokenizer.vocab_size());
            model.saying(move |id, position| logits(id, position, vocab_size))
        })
    };
    Ok((saying(base_logits)?, saying(other_logits)?))
}

/// One call of the answer, and the logits that predict each token of the texts.
struct Trial {
    got: Vec<TextChange>,
    texts: Vec<Vec<Place>>,
    calls: usize,
}

/// A token that is predicted, and the logits of both models for it.
struct Place {
    id: u32,
    base: Vec<f32>,
    other: Vec<f32>,
}

impl Trial {
    fn run(yours: &Answer<'_>, texts: &[&str]) -> Result<Self, Complaint> {
        let machine = Machine::new(Costs::PLAIN);
        let (base, other) = pair(&machine)?;
        let got = ask(|| yours(&base, &other, texts))?;
        let vocab_size = base.model.info().vocab_size;
        let calls = machine.calls();
        let places = |text: &&str| {
            let ids = base.tokenizer.encode(text)?;
            let place = |(t, pair): (usize, &[u32])| {
                let [base, other] = [base_logits, other_logits].map(|logits| logits(pair[0], t, vocab_size));
                Place { id: pair[1], base, other }
            };
            Ok(ids.windows(2).enumerate().map(place).collect::<Vec<_>>())
        };
        let mut texts: Vec<Vec<Place>> = texts.iter().map(places).collect::<Result<_, Error>>()?;
        texts.retain(|places| !places.is_empty());
        Ok(Self { got, texts, calls })
    }

    fn counts(&self) -> Verdict {
        let (texts, got) = (self.texts.len(), self.got.len());
        if got != texts {
            return wrong!("{texts} of the texts have a token to predict; got {got} `TextChange`s");
        }
        self.got.iter().zip(&self.texts).try_for_each(|(change, places)| {
            let (expected, got) = (places.len(), change.tokens);
            Complaint::unless(got == expected, || {
                format!("a text of {} tokens has {expected} to predict; `tokens` is {got}", expected + 1)
            })
        })
    }

    /// A figure for each text.
    fn figures(&self, figure: fn(&TextChange, &[Place]) -> Figure) -> Vec<Figure> {
        self.got.iter().zip(&self.texts).map(|(change, places)| figure(change, places)).collect()
    }

    fn loss_change(change: &TextChange, places: &[Place]) -> Figure {
        let each = |of: fn(&Place) -> f64| places.iter().map(of).sum::<f64>();
        let [base, other] = [each(|place| nll(&place.base, place.id)), each(|place| nll(&place.other, place.id))];
        Figure {
            what: format!("`loss_change` of a text of {} tokens", places.len() + 1),
            got: change.loss_change,
            expected: other - base,
            mistakes: vec![
                (base - other, "the sign is wrong: above 0 means that the other model has the higher loss"),
                (other, "this is the other model's loss; subtract the base model's"),
                (base, "this is the base model's loss; subtract it from the other model's"),
                ((other - base) / places.len() as f64, "this is the mean; return the sum"),
            ],
        }
    }

    fn divergence(change: &TextChange, places: &[Place]) -> Figure {
        let over = |of: fn(&Place) -> f64| places.iter().map(of).sum::<f64>();
        let expected = over(|place| kl(logs(&place.base, &place.other)));
        Figure {
            what: format!("`divergence` of a text of {} tokens", places.len() + 1),
            got: change.divergence,
            expected,
            mistakes: vec![
                (over(|place| kl(logs(&place.other, &place.base))), "base and other are swapped: the base comes first"),
                (expected / places.len() as f64, "this is the mean; return the sum"),
            ],
        }
    }

    fn same_top(change: &TextChange, places: &[Place]) -> Figure {
        let count = |holds: fn(&Place) -> bool| places.iter().filter(|place| holds(place)).count() as f64;
        let with_text = "compare the models with each other, not with the text";
        Figure {
            what: format!("`same_top` of a text of {} tokens", places.len() + 1),
            got: change.same_top as f64,
            expected: count(|place| top(&place.base) == top(&place.other)),
            mistakes: vec![
                (count(|place| top(&place.base) != top(&place.other)), "these are the places where they differ"),
                (count(|place| top(&place.base) == place.id as usize), with_text),
                (count(|place| top(&place.other) == place.id as usize), with_text),
            ],
        }
    }
}

fn top(logits: &[f32]) -> usize {
    (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b])).unwrap_or(0)
}

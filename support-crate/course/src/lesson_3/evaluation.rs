//! `evaluate`: the loss of a set of texts, batch by batch, every token with the same weight.

use std::cell::OnceCell;

use quantlab::error::{Error, Result};
use quantlab::model::{CausalLm, Loaded, Tokenizer};
use quantlab::source::ModelFile;

use super::{Evaluation, is_close, nll};
use crate::cases::{as_strs, texts};
use crate::failures::{must_fail, must_succeed};
use crate::figure::{Figure, all_right, mean, weighted_mean};
use crate::probe::{Costs, Event, Machine, ProbeModel};
use crate::{Complaint, Score, Verdict, ask};

const BATCH_SIZE: usize = 2;

/// A tokenizer that fails on every word but three.
const THREE_WORDS: &[u8] = br#"{"version": "1.0", "pre_tokenizer": {"type": "Whitespace"}, "model":
    {"type": "WordLevel", "vocab": {"fox": 0, "cat": 1, "and": 2}, "unk_token": "?"}}"#;

const HINTS: [&str; 3] = [
    "A batch of long texts and one of short texts: should a token in one count for more than a token in the other? \
     Which two numbers can you add up over batches without having to decide?",
    "Keep one `LossSum` for everything. For each chunk of texts: text to ids, `pad_batch`, one forward pass, then add \
     `nll` and `tokens` of every row. Divide once, after the last batch; `exp` comes after that.",
    "`for texts in texts.chunks(batch_size) { ...; let batch = TokenBatch::new(&padded.ids)?.with_attention_mask(\
     &padded.mask)?; let logits = loaded.model.forward(&batch, None, LogitPositions::All)?; for row in 0..texts.len() { \
     let loss = sequence_loss(&logits, row, &padded.ids[row], &padded.mask[row]); total.nll += loss.nll; total.tokens += \
     loss.tokens; } }`, then `total.nll / total.tokens as f64`, unless `total.tokens` is 0.",
];

type Answer<'a> = dyn Fn(&Loaded, &[&str], usize) -> Result<Evaluation> + 'a;

/// Checks `evaluate(loaded, texts, batch_size)`.
pub fn check_evaluate(yours: fn(&Loaded, &[&str], usize) -> Result<Evaluation>) -> Score {
    let evaluate = |texts: &[&str], batch_size: usize| Trial::run(&yours, texts, batch_size, None);
    let texts = texts();
    let texts = as_strs(&texts);
    let long = texts[3].repeat(6);
    // Then one text seven times, and a long one with a short one.
    let sets: [(&[&str], usize); 3] = [(&texts, BATCH_SIZE), (&["It rained."; 7], 3), (&[&long, texts[0]], 1)];
    let trials = sets.iter().map(|&(texts, batch_size)| evaluate(texts, batch_size));
    let trials: Result<Vec<Trial>, Complaint> = trials.collect();
    let trial = trials.as_ref().map(|trials| &trials[0]).map_err(Complaint::clone);
    let other_sizes: Result<Vec<Trial>, Complaint> =
        [1, 3, 4, 16].map(|size| evaluate(&texts, size)).into_iter().collect();
    let others = other_sizes.as_ref().map_err(Complaint::clone);
    Score::new("evaluate", HINTS)
        .about(&trials, "it counts the tokens that are predicted, and nothing else", |trials| {
            trials.iter().try_for_each(Trial::counts_tokens)
        })
        .about(&trials, "average_loss is the mean over all tokens", |trials| {
            all_right(&trials.iter().map(Trial::average).collect::<Vec<_>>(), is_close)
        })
        .about(&trials, "perplexity is exp(average_loss)", |trials| trials.iter().try_for_each(Trial::exponentiates))
        .about(&trial, "it reads batch_size texts at once, and says what is padding", |trial| {
            trial.reads_batches()?;
            others.clone()?.iter().try_for_each(Trial::reads_batches)
        })
        .about(&trial, "the batch size changes nothing", |trial| {
            others.clone()?.iter().try_for_each(|other| trial.agrees_with(other))
        })
        .about(&trial, "a text with nothing to predict adds nothing", |trial| {
            // One token or none, beside a text that fills the batch.
            let with: Vec<&str> = ["assert"].into_iter().chain(texts.iter().copied()).chain([""]).collect();
            for size in [BATCH_SIZE, 1] {
                let with = must_succeed(evaluate(&with, size), |error| {
                    format!("with a text of one token and an empty one added, it returned an error: {error}")
                })?;
                trial.is_unmoved(&with)?;
            }
            // The least that can be evaluated.
            evaluate(&["The."], BATCH_SIZE)?.counts_tokens()
        })
        .about(&trial, "with no token to predict there is an error, not a number", |_| {
            let nothing: [&[&str]; 4] = [&[], &["assert"], &["a", "assert", "a"], &[""]];
            nothing.iter().try_for_each(|texts| {
                must_fail(evaluate(texts, BATCH_SIZE), |Trial { evaluation: Evaluation { perplexity, .. }, .. }| {
                    format!(
                        "the texts {texts:?} have no token to predict, but got the perplexity {perplexity}; return \
                         `Err(Error::input(\"...\"))`, so that nobody takes it for a result"
                    )
                })
            })
        })
        .about(&trial, "an error of model or tokenizer is passed on", |_| {
            passes_errors_on(&yours)?;
            cuts_nothing_off(&yours)
        })
}

fn passes_errors_on(yours: &Answer<'_>) -> Verdict {
    let is_error = |result: Result<Evaluation, Complaint>, what: &str| {
        must_fail(result, |Evaluation { tokens, .. }| {
            format!(
                "{what}, and you return a result over {tokens} tokens as if nothing had happened; let `?` pass the \
                 error on"
            )
        })
    };
    let texts = texts();
    let texts = as_strs(&texts);
    for text in [texts[1], texts[6], texts[12]] {
        let trial = Trial::run(yours, &texts, BATCH_SIZE, Some(text));
        is_error(trial.map(|trial| trial.evaluation), &format!("the model failed on the batch with {text:?}"))?;
    }
    for batch_size in [1, 2] {
        let tokenizer = Tokenizer::read(&ModelFile::embedded("probe/tokenizer.json", THREE_WORDS))?;
        let model = talking(ProbeModel::new(&Machine::new(Costs::PLAIN), tokenizer.vocab_size()));
        let loaded = Loaded::new(tokenizer, Box::new(model), "probe", "float32")?;
        let texts = ["fox and cat", "cat and fox and cat", "fox or cat", "cat and fox", "and cat"];
        let result = ask(|| yours(&loaded, &texts, batch_size));
        if let (Err(Complaint::Failed(message)), Err(Complaint::Failed(of_none))) =
            (&result, ask(|| yours(&loaded, &[], batch_size)))
        {
            Complaint::unless(*message != of_none, || {
                format!(
                    "the tokenizer failed on one of five texts, and your error says {message:?}: pass on the first one"
                )
            })?;
        }
        is_error(result, "the tokenizer failed on one of five texts")?;
    }
    Ok(())
}

/// With a context too short for the longest text, the answer must evaluate all of it or return an error.
fn cuts_nothing_off(yours: &Answer<'_>) -> Verdict {
    const CONTEXT_LEN: usize = 24;
    let short = |model| talking(model).with_info(|info| info.context_len = CONTEXT_LEN);
    let loaded = Machine::new(Costs::PLAIN).loaded(short)?;
    let texts = texts();
    let texts = as_strs(&texts);
    let tokens = texts.iter().map(|text| Ok(loaded.tokenizer.encode(text)?.len() - 1));
    let expected: usize = tokens.sum::<Result<_, Error>>()?;
    match ask(|| yours(&loaded, &texts, BATCH_SIZE)) {
        Err(Complaint::Failed(_)) => Ok(()),
        Err(complaint) => Err(complaint),
        Ok(Evaluation { tokens, .. }) => Complaint::unless(tokens == expected, || {
            format!(
                "a text is longer than the model's context of {CONTEXT_LEN} tokens, and you return a result over {tokens} \
                 of {expected} tokens as if that were all: let `?` pass the model's error on"
            )
        }),
    }
}

/// One call of the answer, what happened on the machine meanwhile, and what should have come out.
struct Trial {
    evaluation: Evaluation,
    batch_size: usize,
    forwards: Vec<Event>,
    texts: Vec<TextLoss>,
}

/// A text, and what the probe's logits make of it, computed on first use.
struct TextLoss {
    ids: Vec<u32>,
    vocab_size: usize,
    /// In characters, bytes and words.
    lengths: [usize; 3],
    /// The losses of all tokens but the first, and the losses by the logits at each token's own position instead of the
    /// one before.
    losses: OnceCell<[Vec<f64>; 2]>,
}

impl Trial {
    /// The model fails when it reads the text `failing`.
    fn run(yours: &Answer<'_>, texts: &[&str], batch_size: usize, failing: Option<&str>) -> Result<Self, Complaint> {
        let machine = Machine::new(Costs::PLAIN);
        let tokenizer = machine.tokenizer()?;
        let vocab_size = tokenizer.vocab_size();
        let failing = failing.map(|text| tokenizer.encode(text)).transpose()?;
        let loaded = machine.loaded(|model| {
            talking(model).failing_on(move |ids| {
                failing.as_ref().is_some_and(|text| ids.windows(text.len()).any(|part| part == text.as_slice()))
            })
        })?;
        let losses = texts.iter().map(|text| {
            let lengths = [text.chars().count(), text.len(), text.split_whitespace().count()];
            Ok(TextLoss { ids: tokenizer.encode(text)?, vocab_size, lengths, losses: OnceCell::new() })
        });
        let losses: Vec<TextLoss> = losses.collect::<Result<_, Error>>()?;
        let evaluation = ask(|| yours(&loaded, texts, batch_size))?;
        Ok(Self { evaluation, batch_size, forwards: machine.forwards(), texts: losses })
    }

    fn counts_tokens(&self) -> Verdict {
        let tokens = self.evaluation.tokens;
        let expected = predicted(&self.texts);
        let why = match tokens {
            _ if tokens == expected => return Ok(()),
            _ if tokens == expected + self.texts.len() => "the first token of each text has nothing before it",
            _ if tokens == predicted(self.full_batches()) => {
                "the texts of the last batch are missing, because it is not full"
            }
            _ if tokens == self.texts.len() => "this is the number of texts",
            _ if tokens > expected => "is padding among them?",
            _ => "some are missing",
        };
        wrong!("`tokens` is {tokens}, of {expected} that can be predicted: {why}")
    }

    fn average(&self) -> Figure {
        let (texts, size) = (self.texts.len(), self.batch_size);
        Figure {
            what: format!("`average_loss` of {texts} texts in batches of {size}"),
            got: self.evaluation.average_loss,
            expected: token_mean(&self.texts),
            mistakes: self.wrong_averages(),
        }
    }

    /// What common mistakes give, and what to say about them.
    fn wrong_averages(&self) -> Vec<(f64, &'static str)> {
        let nll = sum(&self.texts);
        let all_tokens = self.texts.iter().map(|text| text.ids.len()).sum::<usize>() as f64;
        let unshifted: f64 = self.texts.iter().flat_map(|text| &text.losses()[1]).sum();
        let by_length = "each text's mean was weighted by its length in characters, bytes or words; its weight is the \
                         number of tokens that were predicted";
        // The mean of the texts' own losses, weighted like this.
        let weighted = |weight: fn(&TextLoss) -> usize| weighted_mean(self.means(1), self.texts.iter().map(weight));
        vec![
            (weighted(|text| text.lengths[0]), by_length),
            (weighted(|text| text.lengths[1]), by_length),
            (weighted(|text| text.lengths[2]), by_length),
            (
                weighted(|text| text.ids.len()),
                "each text's mean was weighted by all its tokens, but the first one is not predicted",
            ),
            (
                mean(self.means(self.batch_size)),
                "this is the mean of the batches' means. A token in a batch of short texts then counts for more than one in \
                 a batch of long texts; add up, and divide once",
            ),
            (
                mean(self.means(1)),
                "this is the mean of the texts' means. A token of a short text then counts for more than one of a long text",
            ),
            (
                mean(self.texts.chunks(self.batch_size).flat_map(|texts| texts.iter().map(|_| token_mean(texts)))),
                "each batch's mean was weighted by the number of its texts; its weight is the number of tokens that \
                 were predicted",
            ),
            (nll, "this is the sum; divide it by the number of tokens"),
            (nll / all_tokens, "it was divided by all tokens, but the first of each text is not predicted"),
            (nll / self.texts.len() as f64, "it was divided by the number of texts, not of tokens"),
            (unshifted / all_tokens, "the logits were compared with the token they stand at, not with the next one"),
            (token_mean(self.full_batches()), "the last batch is missing, because it is not full"),
        ]
    }

    fn exponentiates(&self) -> Verdict {
        let Evaluation { average_loss, perplexity, .. } = self.evaluation;
        if !average_loss.exp().is_finite() {
            return wrong!("there is nothing to compare it with: `average_loss` is {average_loss}");
        }
        let early = "this is a mean of perplexities. A single text that is hard to predict then outweighs all others; take \
                     the mean of the losses first, and `exp` of that, once";
        let mistakes = [
            (mean(self.means(self.batch_size).map(f64::exp)), early),
            (mean(self.means(1).map(f64::exp)), early),
            (average_loss.exp2(), "the loss is in nats, so the base is e, not 2"),
            (average_loss, "this is the loss itself"),
        ];
        let what = format!("`perplexity` of a loss of {average_loss:.4}");
        let expected = average_loss.exp();
        all_right(&[Figure { what, got: perplexity, expected, mistakes: mistakes.to_vec() }], is_close)
    }

    fn reads_batches(&self) -> Verdict {
        let (size, texts) = (self.batch_size, self.texts.len());
        let (mut passes, mut unmasked) = (0, 0);
        for event in &self.forwards {
            let Event::Forward { batch, seq_len, padding, .. } = *event else { continue };
            if batch > size {
                return wrong!(
                    "`batch_size` was {size}, but {batch} texts were read at once: with a real corpus the logits would not \
                     fit into memory"
                );
            }
            passes += 1;
            unmasked += batch * seq_len - padding;
        }
        if passes > texts.div_ceil(size) {
            return wrong!(
                "{texts} texts in batches of {size} took {passes} forward passes: put {size} texts into one `TokenBatch`, \
                 and read each once"
            );
        }
        let tokens: usize = self.texts.iter().map(|text| text.ids.len()).sum();
        Complaint::unless(unmasked <= tokens, || {
            format!(
                "in batches of {size}, the model took {unmasked} tokens for text where there are {tokens}, because \
                 nothing told it what is padding: give it the mask, `TokenBatch::new(...)?.with_attention_mask(...)?`"
            )
        })
    }

    fn agrees_with(&self, other: &Self) -> Verdict {
        let (a, b) = (self.evaluation.average_loss, other.evaluation.average_loss);
        Complaint::unless(is_close(a, b), || {
            format!(
                "the same texts have the loss {a:.4} in batches of {} and {b:.4} in batches of {}; how texts are put \
                 into batches must not change it",
                self.batch_size, other.batch_size
            )
        })
    }

    fn is_unmoved(&self, with: &Self) -> Verdict {
        let (a, b) = (self.evaluation, with.evaluation);
        Complaint::unless(a.tokens == b.tokens && is_close(b.average_loss, a.average_loss), || {
            format!(
                "texts of one token and of none were added, and a loss of {:.4} over {} tokens became {:.4} over {}: nothing \
                 of them was predicted",
                a.average_loss, a.tokens, b.average_loss, b.tokens
            )
        })
    }

    /// The texts without those of an incomplete last batch.
    fn full_batches(&self) -> &[TextLoss] {
        &self.texts[..self.texts.len() / self.batch_size * self.batch_size]
    }

    /// The loss of each batch in order, as the mean over its tokens.
    fn means(&self, batch_size: usize) -> impl Iterator<Item = f64> {
        self.texts.chunks(batch_size).map(token_mean)
    }
}

impl TextLoss {
    fn losses(&self) -> &[Vec<f64>; 2] {
        self.losses.get_or_init(|| {
            let logits: Vec<Vec<f32>> =
                self.ids.iter().enumerate().map(|(t, &id)| next_logits(id, t, self.vocab_size)).collect();
            let next = self.ids.iter().skip(1).zip(&logits).map(|(&id, logits)| nll(logits, id)).collect();
            [next, self.ids.iter().zip(&logits).map(|(&id, logits)| nll(logits, id)).collect()]
        })
    }
}

/// A model that says [`next_logits`].
pub(super) fn talking(model: ProbeModel) -> ProbeModel {
    let vocab_size = model.info().vocab_size;
    model.saying(move |id, t| next_logits(id, t, vocab_size))
}

/// What the probe says after a token at a position. Later positions make it surer, up to a point, and more often wrong:
/// long texts have a higher loss.
pub(super) fn next_logits(id: u32, position: usize, vocab_size: usize) -> Vec<f32> {
    let sureness = (0.3 * position as f32).min(12.0);
    (0..vocab_size).map(|v| sureness * ((id as usize * 31 + v * 17 + position * 7) % 101) as f32 / 100.0).collect()
}

fn sum(texts: &[TextLoss]) -> f64 {
    texts.iter().flat_map(|text| &text.losses()[0]).sum()
}

fn predicted(texts: &[TextLoss]) -> usize {
    texts.iter().map(|text| text.ids.len().saturating_sub(1)).sum()
}

fn token_mean(texts: &[TextLoss]) -> f64 {
    sum(texts) / predicted(texts) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_mistakes_give_the_same_average() {
        let anything =
            |_: &Loaded, _: &[&str], _: usize| Ok(Evaluation { tokens: 0, average_loss: 0.0, perplexity: 1.0 });
        let trial = Trial::run(&anything, &as_strs(&texts()), BATCH_SIZE, None).unwrap();
        let mut averages: Vec<f64> = trial.wrong_averages().iter().map(|(average, _)| *average).collect();
        averages.push(token_mean(&trial.texts));
        averages.sort_by(f64::total_cmp);
        assert!(averages.windows(2).all(|pair| !is_close(pair[0], pair[1])), "{averages:?}");
    }
}

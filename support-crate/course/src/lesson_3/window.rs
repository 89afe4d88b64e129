//! `loss_in_windows`: a long text in overlapping windows, every token scored once.

use rand::Rng;

use quantlab::model::Loaded;

use super::cutting::{CASES, Window, what, windows};
use super::evaluation::{next_logits, talking};
use super::{LossSum, is_close, nll};
use crate::cases::random;
use crate::failures::{must_fail, passes_failures_on};
use crate::figure::{Figure, all_right};
use crate::probe::{Costs, Event, Machine};
use crate::{Complaint, Score, Verdict, ask};

const HINTS: [&str; 3] = [
    "`windows(ids.len(), window, stride)` says what to read and what to score. Where in the window's logits is the row that \
     predicts token t of the text?",
    "For each window a forward pass over `ids[read.start..read.end]`, then its tokens `scored`, one by one. The logits of a \
     window count from its own beginning, `read.start`, and the row before the token's predicts it.",
    "`for Window { read, scored } in windows(ids.len(), window, stride) { ... }`, logits from \
     `TokenBatch::single(&ids[read.clone()])?`, and for each `t` in `scored`: `sum.nll -= log_softmax_at(logits.row(0, t - \
     1 - read.start), ids[t]); sum.tokens += 1;`.",
];

type Answer<'a> = dyn Fn(&Loaded, &[u32], usize, usize) -> quantlab::error::Result<LossSum> + 'a;

/// Checks `loss_in_windows(loaded, ids, window, stride)`.
pub fn check_loss_in_windows(yours: fn(&Loaded, &[u32], usize, usize) -> quantlab::error::Result<LossSum>) -> Score {
    let trials: Result<Vec<Trial>, Complaint> =
        CASES.iter().map(|&case| Trial::run(&yours, case)).collect::<Result<_, _>>().map_err(beyond_the_window);
    Score::new("loss_in_windows", HINTS)
        .about(&trials, "every token but the first is scored once", |trials| {
            trials.iter().try_for_each(Trial::scores_each_once)
        })
        .about(&trials, "each is guessed from its own window, and the losses are added up", |trials| {
            all_right(&trials.iter().map(Trial::nll).collect::<Vec<_>>(), is_close)
        })
        .about(&trials, "no window is longer than asked for, and none is read that scores nothing", |trials| {
            trials.iter().try_for_each(Trial::reads_windows)
        })
        .point("a text of one token has nothing to predict", finds_nothing(&yours, &trials))
        .point("an error of the model is passed on", passes_errors(&yours, &trials))
}

/// Texts in which no window has anything to score, so that an answer that panics on others may be right here.
fn finds_nothing(yours: &Answer<'_>, trials: &Result<Vec<Trial>, Complaint>) -> Verdict {
    if matches!(trials, Err(Complaint::NotYet)) {
        return Err(Complaint::NotYet);
    }
    [(0, "no tokens"), (1, "one token")].into_iter().try_for_each(|(tokens, what)| {
        match Trial::run(yours, (tokens, 8, 4))?.got {
            LossSum { nll: 0.0, tokens: 0 } => Ok(()),
            LossSum { nll, tokens } => {
                wrong!("a text of {what} has nothing to predict; got {nll:.4} over {tokens} tokens")
            }
        }
    })
}

/// Lets each forward pass over a text fail; of an answer that panics on some text, only the first.
fn passes_errors(yours: &Answer<'_>, trials: &Result<Vec<Trial>, Complaint>) -> Verdict {
    let answer = |machine: &Machine| ask(|| yours(&machine.loaded(talking)?, &ids(CASES[0].0), 8, 4));
    let message = |LossSum { tokens, .. }: LossSum| {
        format!("the model failed on a window, and you return a loss over {tokens} tokens: let `?` pass it on")
    };
    match trials {
        Ok(trials) => passes_failures_on(Costs::PLAIN, 0..trials[0].passes, answer, message),
        Err(complaint) => {
            let machine = Machine::failing_at(Costs::PLAIN, 0);
            let got = answer(&machine);
            if machine.has_failed() { must_fail(got, message) } else { Err(complaint.clone()) }
        }
    }
}

/// A row that the window's logits do not have is mostly one that was counted from the beginning of the text.
fn beyond_the_window(complaint: Complaint) -> Complaint {
    match complaint {
        Complaint::Panicked(message) if message.contains("is out of range for") => Complaint::wrong(format!(
            "it panicked: {message}. The logits of a window count from its own beginning, `read.start`, and not from \
             that of the text"
        )),
        other => other,
    }
}

fn ids(tokens: usize) -> Vec<u32> {
    let mut rng = random(57);
    (0..tokens).map(|_| rng.random_range(0..4000)).collect()
}

/// One call of the answer, and what the model read meanwhile.
struct Trial {
    case: (usize, usize, usize),
    vocab_size: usize,
    got: LossSum,
    passes: usize,
    longest: usize,
    read: usize,
}

impl Trial {
    fn run(yours: &Answer<'_>, case: (usize, usize, usize)) -> Result<Self, Complaint> {
        let machine = Machine::new(Costs::PLAIN);
        let loaded = machine.loaded(talking)?;
        let (tokens, window, stride) = case;
        let got = ask(|| yours(&loaded, &ids(tokens), window, stride))?;
        let (mut passes, mut longest, mut read) = (0, 0, 0);
        for event in machine.forwards() {
            let Event::Forward { batch, seq_len, padding, .. } = event else { continue };
            passes += 1;
            longest = longest.max(seq_len);
            read += batch * seq_len - padding;
        }
        Ok(Self { case, vocab_size: loaded.model.info().vocab_size, got, passes, longest, read })
    }

    fn scores_each_once(&self) -> Verdict {
        let (tokens, window, stride) = self.case;
        let (expected, got) = (tokens.saturating_sub(1), self.got.tokens);
        let lengths = windows(tokens, window, stride).into_iter().map(|window| window.read.len());
        let twice: usize = lengths.map(|length| length - 1).sum();
        let why = match got {
            _ if got == expected => return Ok(()),
            _ if got == tokens => "the first token has nothing before it",
            _ if got == twice => "tokens in the overlap were scored in both windows; an earlier window has scored them",
            _ if got > expected => "some were scored more than once",
            _ => "some were scored in no window; do the windows reach the end of the text?",
        };
        wrong!("{}: `tokens` is {got}, of {expected} that can be predicted: {why}", what(self.case))
    }

    fn nll(&self) -> Figure {
        let (tokens, window, stride) = self.case;
        let ids = ids(tokens);
        // The loss of token t by the logits at position `at` of a window that begins at `start`.
        let loss = |start: usize, at: usize, t: usize| nll(&next_logits(ids[at], at - start, self.vocab_size), ids[t]);
        let over = |each: &dyn Fn(usize, usize) -> f64| -> f64 {
            let of_window = |Window { read, scored }: Window| scored.map(|t| each(read.start, t)).sum::<f64>();
            windows(tokens, window, stride).into_iter().map(of_window).sum()
        };
        let expected = over(&|start, t| loss(start, t - 1, t));
        Figure {
            what: format!("`nll` of {}", what(self.case)),
            got: self.got.nll,
            expected,
            mistakes: vec![
                (-expected, "the sign is wrong: a loss is minus the logarithm"),
                (expected / (tokens - 1) as f64, "this is the mean; return the sum"),
                (over(&|_, t| loss(0, t - 1, t)), "the tokens were guessed from the whole text, not from their window"),
                (over(&|_, t| loss(t - 1, t - 1, t)), "the tokens were guessed from one token each"),
                (
                    over(&|start, t| loss(start, t, t)),
                    "the logits were compared with the token they stand at, not the next",
                ),
            ],
        }
    }

    fn reads_windows(&self) -> Verdict {
        let (tokens, window, stride) = self.case;
        if self.longest > window {
            return wrong!("{}: the model read {} tokens at once", what(self.case), self.longest);
        }
        let together: usize = windows(tokens, window, stride).iter().map(|window| window.read.len()).sum();
        Complaint::unless(self.read <= together, || {
            format!(
                "{}: the windows have {together} tokens together, and the model read {}. Each begins a stride after the \
                 one before, and the last one is the first that reaches the end of the text",
                what(self.case),
                self.read
            )
        })
    }
}

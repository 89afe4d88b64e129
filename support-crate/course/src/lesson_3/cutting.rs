//! `windows`: where the windows of a long text begin and end, and what each of them scores.

use std::ops::Range;

use crate::cases::{random, size};
use crate::{Complaint, Score, Verdict, ask};

/// A part of a long text that a model reads at once. Both ranges count from the beginning of the text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Window {
    /// The tokens that it reads.
    pub read: Range<usize>,
    /// Those of them that it scores, because no earlier window did.
    pub scored: Range<usize>,
}

/// Tokens, window and stride: half of the window, one token, nearly all of it; texts that end with a window, in the middle
/// of one, and before the first one does.
pub(super) const CASES: [(usize, usize, usize); 9] =
    [(23, 8, 4), (24, 8, 4), (25, 8, 4), (30, 6, 1), (30, 9, 7), (5, 8, 4), (2, 2, 1), (8, 8, 3), (60, 16, 12)];

const HINTS: [&str; 3] = [
    "Two numbers say where you are: where the window begins, and how many tokens have been scored. Which of them moves \
     by the stride, and which to the end of the window?",
    "`let (mut start, mut scored) = (0, 1);`, and as long as `scored < tokens`: the window ends at `start + window`, or \
     where the text does; it reads from `start` to there, and scores from `scored` to there.",
    "`let end = tokens.min(start + window); windows.push(Window { read: start..end, scored: scored..end }); scored = end; \
     start += stride;`",
];

/// Checks `windows(tokens, window, stride)`.
pub fn check_windows(yours: fn(usize, usize, usize) -> Vec<Window>) -> Score {
    let run = |case: (usize, usize, usize)| Trial::run(&yours, case);
    let trials: Result<Vec<Trial>, Complaint> = CASES.into_iter().chain(any_cases()).map(run).collect();
    Score::new("windows", HINTS)
        .each(
            &trials,
            &[
                ("windows begin a stride apart and are as long as asked for, but for the last", Trial::reads),
                ("every token but the first is scored once, in the first window that holds it", Trial::scores),
                ("the last window is the first that reaches the end of the text", Trial::ends),
            ],
        )
        .about(&trials, "a text of one token, or of none, needs no window", |_| {
            [(0, 8, 4), (1, 8, 4), (1, 2, 1)].into_iter().try_for_each(|case| {
                let got = run(case)?.got;
                Complaint::unless(got.is_empty(), || {
                    let text = if case.0 == 1 { "one token" } else { "no tokens" };
                    format!("a text of {text} has nothing to predict; you read {:?}", got[0].read)
                })
            })
        })
}

/// Texts and windows of any size.
fn any_cases() -> Vec<(usize, usize, usize)> {
    let mut rng = random(58);
    let mut any = |most: usize| {
        let window = 1 + size(&mut rng, most);
        (1 + size(&mut rng, 400), window, size(&mut rng, window - 1))
    };
    [4, 12, 60, 60, 200, 500].map(&mut any).to_vec()
}

/// One call of the answer.
struct Trial {
    case: (usize, usize, usize),
    got: Vec<Window>,
    expected: Vec<Window>,
}

impl Trial {
    fn run(yours: &dyn Fn(usize, usize, usize) -> Vec<Window>, case: (usize, usize, usize)) -> Result<Self, Complaint> {
        let (tokens, window, stride) = case;
        let got = ask(|| Ok(yours(tokens, window, stride)))?;
        Ok(Self { case, got, expected: windows(tokens, window, stride) })
    }

    fn reads(&self) -> Verdict {
        let (tokens, window, _) = self.case;
        if self.got.is_empty() {
            return wrong!("{}: there is no window", what(self.case));
        }
        for (i, (got, expected)) in self.got.iter().zip(&self.expected).enumerate() {
            let why = match &got.read {
                read if *read == expected.read => continue,
                read if read.end > tokens => "the text ends before",
                read if i > 0 && read.start == i * window => {
                    "windows that only touch leave the first tokens of each without context; the next one begins a stride \
                     further, not a window"
                }
                read if read.start != expected.read.start => "each begins a stride after the one before",
                read if read.len() > window => "that is more than a window",
                _ => "it reads as many tokens as a window has, or as there are",
            };
            return wrong!("{}: window {i} reads {:?}, expected {:?}: {why}", what(self.case), got.read, expected.read);
        }
        Ok(())
    }

    fn scores(&self) -> Verdict {
        let (tokens, ..) = self.case;
        for (i, Window { read, scored }) in self.got.iter().enumerate() {
            let is_outside = !scored.is_empty() && (scored.start < read.start || scored.end > read.end);
            Complaint::unless(!is_outside, || {
                format!(
                    "{}: window {i} reads {read:?} and scores {scored:?}: a window scores tokens that it reads, and both \
                     ranges count from the beginning of the text",
                    what(self.case)
                )
            })?;
        }
        for t in 0..tokens {
            let by: Vec<usize> = (0..self.got.len()).filter(|&i| self.got[i].scored.contains(&t)).collect();
            match by[..] {
                [] if t == 0 => {}
                [_, ..] if t == 0 => {
                    return wrong!("{}: token 0 is scored, and nothing before it predicts it", what(self.case));
                }
                [] => return wrong!("{}: token {t} is scored in no window", what(self.case)),
                [first, second, ..] => {
                    return wrong!(
                        "{}: token {t} is scored in windows {first} and {second}; what an earlier window has scored is only \
                         context in a later one",
                        what(self.case)
                    );
                }
                [only] => {
                    let first = self.got.iter().position(|window| window.read.contains(&t));
                    Complaint::unless(first == Some(only), || {
                        format!(
                            "{}: token {t} is scored in window {only}, but window {} holds it already",
                            what(self.case),
                            first.unwrap_or(0)
                        )
                    })?;
                }
            }
        }
        Ok(())
    }

    fn ends(&self) -> Verdict {
        let (tokens, ..) = self.case;
        let reach = self.got.iter().position(|window| window.read.end >= tokens);
        match reach {
            None => wrong!("{}: no window reaches the end of the text", what(self.case)),
            Some(first) if first + 1 < self.got.len() => wrong!(
                "{}: window {first} reaches the end of the text; windows after it, which have nothing to score: {}",
                what(self.case),
                self.got.len() - first - 1
            ),
            Some(_) => Ok(()),
        }
    }
}

/// What the windows of a case are cut from, and how.
pub(super) fn what((tokens, window, stride): (usize, usize, usize)) -> String {
    format!("{tokens} tokens in windows of {window} with a stride of {stride}")
}

/// The windows of a text, as the learner is to cut them.
pub(super) fn windows(tokens: usize, window: usize, stride: usize) -> Vec<Window> {
    let mut windows = Vec::new();
    let (mut start, mut scored) = (0, 1);
    while scored < tokens {
        let end = tokens.min(start + window);
        windows.push(Window { read: start..end, scored: scored..end });
        (start, scored) = (start + stride, end);
    }
    windows
}

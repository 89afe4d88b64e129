//! `look_up` and `kept`: guesses from the text itself, and what of them stays.

use rand::Rng;

use super::trials::{all_same, slips};
use crate::cases::{random, size};
use crate::figure::Given;
use crate::{Complaint, Score, ask};

const LOOK_UP_HINTS: [&str; 3] = [
    "Where in the text did its last tokens stand before, and what came after them there?",
    "For each length from `ngram` down to 1: the run is the last `length` tokens. Look for it from the end of the text on, \
     among the windows of `ids[..ids.len() - 1]`, so that it does not find itself. The first length that is found decides.",
    "`let before = &ids[..ids.len() - 1];`, `before.windows(length).rposition(|window| window == run)` gives its start, and \
     the guesses are `ids[start + length..]`, at most `count` of them.",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LookUp {
    Right,
    FirstPlace,
    ShortestFirst,
    LongestOnly,
    NeverOne,
    Itself,
    WithRun,
    NoOverlap,
    AllThatFollow,
    SkipsOne,
    AfterFirst,
    BeforeRun,
    AllOrNothing,
}

const LOOK_UP_SLIPS: [(LookUp, &str); 12] = [
    (LookUp::Itself, "the run at the very end is the one that is looked for: it must not find itself"),
    (LookUp::WithRun, "the guesses are what followed the run, not the run itself"),
    (LookUp::SkipsOne, "the first guess is the token right after the run"),
    (LookUp::AfterFirst, "the first guess is the token right after the run"),
    (LookUp::BeforeRun, "what followed may reach into the run at the end"),
    (LookUp::AllOrNothing, "if fewer than `count` tokens follow, guess those"),
    (LookUp::AllThatFollow, "guess at most `count` tokens"),
    (LookUp::FirstPlace, "take the last earlier place, not the first"),
    (LookUp::ShortestFirst, "seek the longest run first: more of what came before is the same"),
    (LookUp::LongestOnly, "if `ngram` tokens never stood there before, seek fewer"),
    (LookUp::NeverOne, "down to 1: the last token alone is a run, too"),
    (LookUp::NoOverlap, "an earlier place may overlap the run: in 4 4 4, the run 4 4 stood one token earlier"),
];

/// Written apart from the library's, with each mistake.
fn looked_up(ids: &[u32], ngram: usize, count: usize, slip: LookUp) -> Vec<u32> {
    let n = ids.len();
    let mut lengths: Vec<usize> = (1..=ngram.min(n.saturating_sub(1))).rev().collect();
    match slip {
        LookUp::ShortestFirst => lengths.reverse(),
        LookUp::LongestOnly => lengths.retain(|length| *length == ngram),
        LookUp::NeverOne => lengths.retain(|length| *length > 1),
        _ => (),
    }
    for length in lengths {
        let last_start = match slip {
            LookUp::Itself => n - length,
            LookUp::NoOverlap if n < 2 * length => continue,
            LookUp::NoOverlap => n - 2 * length,
            _ => n - length - 1,
        };
        let mut places = (0..=last_start).filter(|start| ids[*start..start + length] == ids[n - length..]);
        let found = if slip == LookUp::FirstPlace { places.next() } else { places.next_back() };
        if let Some(start) = found {
            let from = match slip {
                LookUp::WithRun => start,
                LookUp::SkipsOne => (start + length + 1).min(n),
                LookUp::AfterFirst => start + 1,
                _ => start + length,
            };
            let most = match slip {
                LookUp::AllThatFollow => n,
                LookUp::BeforeRun => count.min((n - length).saturating_sub(from)),
                LookUp::AllOrNothing if n - from < count => 0,
                _ => count,
            };
            return ids[from..].iter().take(most).copied().collect();
        }
    }
    Vec::new()
}

/// Checks `look_up(ids, ngram, count)`.
pub fn check_look_up(yours: fn(&[u32], usize, usize) -> Vec<u32>) -> Score {
    let trial = |ids: &[u32], ngram: usize, count: usize| {
        let got = ask(|| Ok(yours(ids, ngram, count)))?;
        let shown = if ids.len() > 16 { format!("{} tokens", ids.len()) } else { format!("&{ids:?}") };
        Ok(Given {
            what: format!("look_up({shown}, {ngram}, {count})"),
            got,
            expected: looked_up(ids, ngram, count, LookUp::Right),
            mistakes: slips(&LOOK_UP_SLIPS, |slip| looked_up(ids, ngram, count, slip)),
        })
    };
    // Few different tokens, so that runs come again.
    let random_texts = |seed, longest: usize| -> Result<Vec<_>, Complaint> {
        let mut rng = random(seed);
        let mut text = |at: usize| -> Vec<u32> {
            (0..8 + size(&mut rng, 60)).map(|_| 7 + rng.random_range(0..2 + at as u32 % 4)).collect()
        };
        let texts: Vec<Vec<u32>> = (0..80).map(&mut text).collect();
        let each = texts.iter().enumerate();
        each.map(|(at, ids)| trial(ids, if longest == 1 { 1 } else { 2 + at % (longest - 1) }, 1 + at % 6)).collect()
    };
    let ends = || -> Result<Vec<_>, Complaint> {
        let cases: [(&[u32], usize, usize); 11] = [
            (&[4, 4], 3, 3),
            (&[4, 4, 4], 2, 5),
            (&[9, 2, 3, 1, 5, 2, 3], 9, 100),
            (&[1, 2, 3], 3, 3),
            (&[1], 3, 3),
            (&[], 2, 4),
            (&[1, 2, 3, 1, 2], 2, 0),
            (&[1, 2, 3, 1, 2], 5, 1),
            (&[5, 6, 5, 6, 5, 6], 4, 6),
            (&[0, 1, 0], 3, 1),
            (&[8, 8, 8, 8, 8, 8, 8], 3, 2),
        ];
        cases.into_iter().map(|(ids, ngram, count)| trial(ids, ngram, count)).collect()
    };
    Score::new("look_up", LOOK_UP_HINTS)
        .point("what followed the last token's last earlier place", all_same(random_texts(81, 1)))
        .point("the longest run that stood there before", all_same(random_texts(82, 5)))
        .point("nothing found, hardly anything left, nothing asked for", all_same(ends()))
}

const KEPT_HINTS: [&str; 3] = [
    "Up to which guess does the model know what it would have chosen after the *right* text?",
    "Choice i is what the model writes after the text and the first i guesses. As long as guess i is choice i, the next choice \
     is one too; where they differ, the choice still is the model's own token, and all after it is about a wrong text.",
    "`let right = guesses.iter().zip(choices).take_while(|(guess, choice)| guess == choice).count();` and \
     `choices[..=right].to_vec()`",
];

#[derive(Debug, Clone, Copy)]
enum Kept {
    Right,
    NoBonus,
    GuessesOnly,
    WrongGuess,
    AllThatAgree,
    AsManyAsAgree,
    OneMore,
    AllChoices,
    NextChoice,
}

const KEPT_SLIPS: [(Kept, &str); 8] = [
    (Kept::NoBonus, "if all guesses are right, the choice after them is a new token, too"),
    (Kept::GuessesOnly, "the model's own choice at the first wrong guess is a new token, too"),
    (Kept::WrongGuess, "the new tokens end with the model's own choice, not with the guess in its place"),
    (Kept::AllThatAgree, NOTHING_AFTER),
    (Kept::AsManyAsAgree, NOTHING_AFTER),
    (Kept::OneMore, NOTHING_AFTER),
    (Kept::NextChoice, "choice i is what the model writes in the place of guess i: compare these two"),
    (Kept::AllChoices, "only choices up to the first that is another than its guess count"),
];

const NOTHING_AFTER: &str = "after a wrong guess, nothing is kept: the later choices follow a text that is not there";

fn kept(guesses: &[u32], choices: &[u32], slip: Kept) -> Vec<u32> {
    let n = guesses.len();
    let right = (0..n).take_while(|&i| guesses[i] == choices[i]).count();
    let agree = (0..n).filter(|&i| guesses[i] == choices[i]).map(|i| choices[i]);
    match slip {
        Kept::NoBonus => choices[..n.min(right + 1)].to_vec(),
        Kept::GuessesOnly => guesses[..right].to_vec(),
        Kept::WrongGuess if right < n => guesses[..=right].to_vec(),
        Kept::AllThatAgree => agree.chain(choices.last().copied()).collect(),
        Kept::AsManyAsAgree => choices[..=agree.count()].to_vec(),
        Kept::OneMore => choices[..choices.len().min(right + 2)].to_vec(),
        Kept::AllChoices => choices.to_vec(),
        Kept::NextChoice => choices[..=(0..n).take_while(|&i| guesses[i] == choices[i + 1]).count()].to_vec(),
        Kept::Right | Kept::WrongGuess => choices[..=right].to_vec(),
    }
}

/// Checks `kept(guesses, choices)`.
pub fn check_kept(yours: fn(&[u32], &[u32]) -> Vec<u32>) -> Score {
    let trial = |guesses: &[u32], choices: &[u32]| {
        Ok(Given {
            what: format!("kept(&{guesses:?}, &{choices:?})"),
            got: ask(|| Ok(yours(guesses, choices)))?,
            expected: kept(guesses, choices, Kept::Right),
            mistakes: slips(&KEPT_SLIPS, |slip| kept(guesses, choices, slip)),
        })
    };
    let some_wrong = || -> Result<Vec<_>, Complaint> {
        let mut rng = random(83);
        let mut trials = Vec::new();
        while trials.len() < 60 {
            let n = size(&mut rng, 8);
            let choices: Vec<u32> = (0..=n).map(|_| rng.random_range(0..9)).collect();
            let guesses: Vec<u32> =
                choices[..n].iter().map(|c| if rng.random_bool(0.6) { *c } else { rng.random_range(0..9) }).collect();
            if guesses != choices[..n] {
                trials.push(trial(&guesses, &choices)?);
            }
        }
        Ok(trials)
    };
    let all_right = || -> Result<Vec<_>, Complaint> {
        let cases: [&[u32]; 5] = [&[5, 6, 7, 8], &[3, 3, 3], &[0, 0], &[4], &[1, 2, 3, 4, 5, 6, 7, 8, 9]];
        cases.into_iter().map(|choices| trial(&choices[..choices.len() - 1], choices)).collect()
    };
    Score::new("kept", KEPT_HINTS)
        .point("up to the first other choice, with it", all_same(some_wrong()))
        .point("if no guess is wrong, all choices", all_same(all_right()))
}

//! `draw_or_keep`: a guess that was drawn from other probabilities, and still the model's own; and `tokens_per_pass`.

use rand::Rng;
use rand::rngs::StdRng;

use super::trials::{all_same, all_within, slips};
use crate::cases::random;
use crate::figure::{Figure, Given, all_right};
use crate::{Complaint, Score, ask};

const HINTS: [&str; 3] = [
    "The draft guesses this token with probability q. How often may it be kept, so that in all it comes out at most with p? \
     And which tokens come out too seldom so far?",
    "Keep the guess if `accept` is less than p over q of it. If not, a token is drawn from what is missing, p - q where that is \
     positive: these numbers add up to less than 1, so divide by their sum, or multiply `draw` by it.",
    "`let missing: Vec<f64> = p.iter().zip(q).map(|(p, q)| (p - q).max(0.0)).collect();`, \
     `let goal = draw * missing.iter().sum::<f64>();`; then add up `missing` until the sum exceeds `goal`. (Rounding can leave \
     the whole sum at the goal: then it is the last token of which something is missing.)",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slip {
    Right,
    Always,
    ByP,
    UpsideDown,
    Greedy,
    FromP,
    FromQ,
    Others,
    Apart,
    NotNormalised,
    NotNormalisedEither,
    Likeliest,
    SameNumber,
    OtherWay,
}

const SLIPS: [(Slip, &str); 13] = [
    (Slip::Always, "a guess is kept with probability p over q, not always: now the draft's probabilities come out"),
    (Slip::ByP, "a guess was drawn with probability q already: keep it with p over q, not with p"),
    (Slip::UpsideDown, "that is q over p: what the draft guesses too often must be dropped"),
    (Slip::Greedy, "whether a guess is kept is chance, by p over q; the likelier of p and q does not win always"),
    (Slip::FromP, "in place of a guess comes a token of which q is too small, by p - q; by p, guessed ones come twice"),
    (Slip::FromQ, "in place of a guess comes a token of which q is too small, by p - q; not by q"),
    (Slip::Others, "p without the guess is not what is missing: that is p - q, where it is positive"),
    (Slip::Apart, "where q exceeds p, nothing is missing: 0, not the magnitude of p - q"),
    (Slip::NotNormalised, NOT_NORMALISED),
    (Slip::NotNormalisedEither, NOT_NORMALISED),
    (Slip::Likeliest, "draw by what is missing; not always the token of which most is missing"),
    (Slip::SameNumber, "`accept` says whether the guess is kept, `draw` which token comes in its place"),
    (Slip::OtherWay, "what is missing is p - q, not q - p"),
];

const NOT_NORMALISED: &str = "what is missing adds up to less than 1: divide by its sum, or multiply `draw` by it";

/// The distribution over tokens that comes out for a guess, with a mistake: kept, and in its place.
fn kept(guess: usize, p: &[f64], q: &[f64], slip: Slip) -> f64 {
    match slip {
        Slip::Always => 1.0,
        Slip::ByP => p[guess],
        Slip::UpsideDown => (q[guess] / p[guess]).min(1.0),
        Slip::Greedy => f64::from(u8::from(p[guess] >= q[guess])),
        _ => (p[guess] / q[guess]).min(1.0),
    }
}

fn in_its_place(guess: usize, p: &[f64], q: &[f64], slip: Slip) -> Vec<f64> {
    let of = |t: usize| match slip {
        Slip::FromP => p[t],
        Slip::FromQ => q[t],
        Slip::Others => p[t] * f64::from(u8::from(t != guess)),
        Slip::Apart => (p[t] - q[t]).abs(),
        Slip::OtherWay => (q[t] - p[t]).max(0.0),
        _ => (p[t] - q[t]).max(0.0),
    };
    let mut missing: Vec<f64> = (0..p.len()).map(of).collect();
    let sum: f64 = missing.iter().sum();
    let last = missing.iter().rposition(|x| *x > 0.0).unwrap_or(0);
    let only = |token: usize| (0..p.len()).map(|t| f64::from(u8::from(t == token))).collect();
    match slip {
        Slip::NotNormalised => missing[last] += 1.0 - sum,
        Slip::NotNormalisedEither => missing[p.len() - 1] += 1.0 - sum,
        Slip::Likeliest => {
            missing = only((0..p.len()).max_by(|&a, &b| missing[a].total_cmp(&missing[b])).unwrap_or(0));
        }
        Slip::SameNumber => missing = only(last),
        _ => missing.iter_mut().for_each(|x| *x /= sum),
    }
    missing
}

/// The tokens that come in place of a guess, in the order of the ids, for numbers from 0 to 1 that are spread evenly.
fn drawn(guess: usize, p: &[f64], q: &[f64], slip: Slip) -> Vec<u32> {
    let shares = in_its_place(guess, p, q, slip);
    let token = |draw: f64| {
        let sums = shares.iter().scan(0.0, |sum, share| {
            *sum += share;
            Some(*sum)
        });
        sums.take_while(|sum| *sum <= draw).count().min(p.len() - 1) as u32
    };
    draws().map(token).collect()
}

/// Uniform numbers, spread evenly.
fn draws() -> impl Iterator<Item = f64> {
    evenly(20).map(|(first, _)| first)
}

/// Two distributions over `n` tokens: of one, a token has no probability in p; of another, none in q.
fn pair(rng: &mut StdRng, n: usize) -> (Vec<f64>, Vec<f64>) {
    let mut numbers = || -> Vec<f64> { (0..n).map(|_| rng.random_range(0.05..1.0_f64).powi(2)).collect() };
    let (mut p, mut q) = (numbers(), numbers());
    if n > 3 {
        (p[1], q[2]) = (0.0, 0.0);
    }
    for numbers in [&mut p, &mut q] {
        let sum: f64 = numbers.iter().sum();
        numbers.iter_mut().for_each(|x| *x /= sum);
    }
    (p, q)
}

/// Pairs of uniform numbers, spread evenly.
fn evenly(n: usize) -> impl Iterator<Item = (f64, f64)> {
    (0..n).map(move |i| ((i as f64 + 0.5) / n as f64, (i as f64 * 0.618_033_988_749_895).fract()))
}

type Yours<'a> = dyn Fn(u32, &[f64], &[f64], f64, f64) -> u32 + 'a;

/// How often each token comes out, for uniform numbers that are spread evenly.
fn shares(yours: &Yours<'_>, guess: usize, p: &[f64], q: &[f64]) -> Result<Vec<f64>, Complaint> {
    const TIMES: usize = 3000;
    let mut shares = vec![0.0; p.len()];
    for (accept, draw) in evenly(TIMES) {
        let token = ask(|| Ok(yours(guess as u32, p, q, accept, draw)))? as usize;
        match shares.get_mut(token) {
            Some(share) => *share += 1.0 / TIMES as f64,
            None => return wrong!("token {token} came out, of {}", p.len()),
        }
    }
    Ok(shares)
}

/// Checks `draw_or_keep(guess, p, q, accept, draw)`.
pub fn check_draw_or_keep(yours: fn(u32, &[f64], &[f64], f64, f64) -> u32) -> Score {
    let mut rng = random(84);
    let pairs = [2, 3, 5, 6, 4].map(|n| pair(&mut rng, n));
    let shown = |x: &[f64]| x.iter().map(|x| format!("{x:.3}")).collect::<Vec<_>>().join(", ");
    let guesses = |q: &[f64]| (0..q.len()).filter(|t| q[*t] > 0.0).collect::<Vec<_>>();
    let tokens = |guess: usize, p: &[f64], q: &[f64], accept: f64| -> Result<Vec<u32>, Complaint> {
        draws().map(|draw| ask(|| Ok(yours(guess as u32, p, q, accept, draw)))).collect()
    };
    // It is kept if no other token comes, whatever is drawn. Where several are missing, that is no other mistake.
    let keeps = || -> Result<Vec<_>, Complaint> {
        let mut trials = Vec::new();
        let is_clear = |(p, q): &(Vec<f64>, Vec<f64>)| p.iter().zip(q).filter(|(p, q)| p > q).count() > 1;
        for (p, q) in pairs.iter().filter(|pair| is_clear(pair)) {
            for guess in guesses(q) {
                let always = |tokens: &[u32]| tokens.iter().all(|token| *token == guess as u32);
                let mut got = 0.0;
                for (accept, _) in evenly(500) {
                    got += f64::from(u8::from(always(&tokens(guess, p, q, accept)?))) / 500.0;
                }
                trials.push(Given {
                    what: format!("how often guess {guess} is kept, p = [{}], q = [{}]", shown(p), shown(q)),
                    got: vec![got],
                    expected: vec![kept(guess, p, q, Slip::Right)],
                    mistakes: slips(&SLIPS, |slip| {
                        vec![if always(&drawn(guess, p, q, slip)) { 1.0 } else { kept(guess, p, q, slip) }]
                    }),
                });
            }
        }
        Ok(trials)
    };
    let replaces = || -> Result<Vec<_>, Complaint> {
        let mut trials = Vec::new();
        for (p, q) in &pairs {
            for guess in guesses(q).into_iter().filter(|&t| p[t] < 0.9 * q[t]) {
                trials.push(Given {
                    what: format!(
                        "what comes in place of guess {guess} by `draw` from 0 to 1, in the order of the ids, p = [{}], \
                         q = [{}],",
                        shown(p),
                        shown(q)
                    ),
                    got: tokens(guess, p, q, 0.999_999)?,
                    expected: drawn(guess, p, q, Slip::Right),
                    mistakes: slips(&SLIPS, |slip| drawn(guess, p, q, slip)),
                });
            }
        }
        Ok(trials)
    };
    let together = || -> Result<Vec<_>, Complaint> {
        let same = (vec![0.25, 0.5, 0.25], vec![0.25, 0.5, 0.25]);
        let apart = (vec![0.5, 0.5, 0.0, 0.0], vec![0.0, 0.0, 0.5, 0.5]);
        let mut trials = Vec::new();
        for (p, q) in pairs.clone().into_iter().chain([same, apart, (vec![1.0], vec![1.0])]) {
            let mut all = vec![0.0; p.len()];
            for guess in guesses(&q) {
                let shares = shares(&yours, guess, &p, &q)?;
                all.iter_mut().zip(shares).for_each(|(all, share)| *all += q[guess] * share);
            }
            let what = format!("tokens in all, guesses drawn by q = [{}]", shown(&q));
            trials.push(Given { what, got: all, expected: p, mistakes: Vec::new() });
        }
        Ok(trials)
    };
    Score::new("draw_or_keep", HINTS)
        .point("a guess is kept with p over q, at most 1", all_within(keeps(), 0.004, ""))
        .point("in its place comes what is missing, p - q", all_same(replaces()))
        .point("in all, tokens come out with the model's probabilities", all_within(together(), 0.004, ""))
}

const TOKENS_HINTS: [&str; 3] = [
    "With which probability does a pass give at least two tokens? At least three?",
    "A pass gives one token always, one more if the first guess is right, a third if the first two are. The mean is the sum of \
     these probabilities: 1 + a + a^2 + ... + a^n.",
    "`(0..=guesses as i32).map(|i| acceptance.powi(i)).sum()`; the closed form (1 - a^(n + 1)) / (1 - a) divides by 0 at a = 1.",
];

/// Checks `tokens_per_pass(acceptance, guesses)`.
pub fn check_tokens_per_pass(yours: fn(f64, usize) -> f64) -> Score {
    let figure = |(a, n): (f64, usize)| -> Result<Figure, Complaint> {
        let sum = |from: usize, to: usize| (from..to).map(|i| a.powi(i as i32)).sum::<f64>();
        let mistakes = vec![
            (sum(1, n + 1), "the model's own choice is a token, too: a pass gives at least one"),
            (sum(0, n), "with n guesses a pass gives up to n + 1 tokens: powers 0 to n"),
            (sum(0, n + 2), "with n guesses a pass gives at most n + 1 tokens: powers 0 to n"),
            (1.0 + a * n as f64, "a guess counts only if all before it are right, too"),
            (1.0 + a.powi(n as i32) * n as f64, "a pass also gives tokens if only some guesses are right"),
            (1.0 / (1.0 - a), "there are only n guesses: the sum ends at power n"),
        ];
        let got = ask(|| Ok(yours(a, n)))?;
        Ok(Figure { what: format!("tokens_per_pass({a}, {n})"), got, expected: sum(0, n + 1), mistakes })
    };
    let of = |cases: &[(f64, usize)]| {
        let figures: Result<Vec<Figure>, Complaint> = cases.iter().copied().map(figure).collect();
        figures.and_then(|figures| all_right(&figures, |a, b| (a - b).abs() <= 1e-9 * a.abs()))
    };
    Score::new("tokens_per_pass", TOKENS_HINTS)
        .point("chances below 1", of(&[(0.5, 2), (0.8, 3), (0.31, 7), (0.97, 40), (0.6, 1), (0.05, 5), (0.9999, 30)]))
        .point("always right, never right, no guesses", of(&[(1.0, 4), (1.0, 1), (0.0, 6), (0.7, 0), (1.0, 0)]))
}

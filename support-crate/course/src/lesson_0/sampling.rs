//! `probabilities` and `draw`: from logits to a token.

use rand::Rng;
use rand::seq::SliceRandom;

use super::Sampling;
use super::trials::{Trial, all_close, numbers};
use crate::cases::random;
use crate::figure::Given;
use crate::{Complaint, Score, Verdict, ask};

const PROBABILITIES_HINTS: [&str; 3] = [
    "Which comes first: temperature, top-k or top-p? And what must the probabilities of what is left add up to?",
    "Divide by the temperature and take softmax. Sort a copy, largest first: number k - 1 is the least that top-k keeps, and \
     what equals it stays too. Divide what is left by its sum. For top-p, go down the sorted list until the sum reaches \
     `top_p`, with the token that reaches it. Divide by the sum once more. A temperature of 0 is a case of its own.",
    "A token is set to `0.0` rather than removed, so that the index stays its id. For top-p: `let mut order: Vec<usize> = \
     (0..p.len()).collect(); order.sort_by(|&a, &b| p[b].total_cmp(&p[a]));`, then `for id in order { if sum >= top_p { p[id] \
     = 0.0; } else { sum += p[id]; } }`.",
];

/// A mistake in [`reference`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slip {
    None,
    Multiplied,
    NoTemperature,
    NoTopK,
    OneMoreThanK,
    OneLessThanK,
    LogitsOfZero,
    TiesDropped,
    NotNormalised,
    NotNormalisedAfterK,
    NoTopP,
    CrossingDropped,
    OneMoreThanP,
    LogitsForP,
    WeightsForP,
    TemperatureLast,
}

const SLIPS: [(Slip, &str); 15] = [
    (Slip::Multiplied, "the logits are multiplied by the temperature; divide them by it"),
    (Slip::NoTemperature, "the temperature changes nothing: divide the logits by it"),
    (Slip::NoTopK, "top-k changes nothing: tokens below the k likeliest get 0"),
    (Slip::OneMoreThanK, "top-k keeps one token too many"),
    (Slip::OneLessThanK, "top-k keeps one token too few: the last of the k stays"),
    (
        Slip::LogitsOfZero,
        "a token that top-k drops has a *probability* of 0; a logit of 0 is no less likely than others",
    ),
    (Slip::TiesDropped, "tokens as likely as the last of the k stay too: their order is an accident"),
    (Slip::NotNormalised, "what is left does not add up to 1: divide it by its sum"),
    (Slip::NotNormalisedAfterK, "top-p takes its share of what top-k left: divide by the sum in between"),
    (Slip::NoTopP, "top-p changes nothing: tokens beyond the first that add up to `top_p` get 0"),
    (Slip::CrossingDropped, "the token with which the sum reaches `top_p` stays: without it, the sum is too small"),
    (Slip::OneMoreThanP, "top-p keeps one token too many: stop with the one that reaches `top_p`"),
    (Slip::LogitsForP, "top-p goes from the likeliest token down, not by id"),
    (
        Slip::WeightsForP,
        "top-p left the likeliest token alone: is what you compare with `top_p` a sum of probabilities, all of which \
         add up to 1?",
    ),
    (Slip::TemperatureLast, "top-p chooses by the probabilities at temperature 1; the temperature comes first"),
];

/// `temperature` is above 0.
///
/// Source: the order of `generation/logits_process.py` in transformers; Holtzman et al. 2019, arXiv:1904.09751.
fn reference(logits: &[f32], sampling: &Sampling, slip: Slip) -> Vec<f64> {
    let Sampling { temperature, top_k, top_p } = *sampling;
    let softmax = |temperature: f64| -> Vec<f64> {
        let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let weight = |logit: &f32| (f64::from(logit - largest) / temperature).exp();
        normalised(logits.iter().map(weight).collect())
    };
    let at = match slip {
        Slip::Multiplied => 1.0 / temperature,
        Slip::NoTemperature | Slip::TemperatureLast => 1.0,
        _ => temperature,
    };
    let mut p = softmax(at);
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]));
    let k = match slip {
        Slip::OneMoreThanK => top_k.map(|k| k + 1),
        Slip::OneLessThanK => top_k.map(|k| 1.max(k - 1)),
        _ => top_k,
    };
    let k = k.unwrap_or(p.len());
    if k < p.len() && slip != Slip::NoTopK {
        let least = logits[order[k - 1]];
        let ties = slip != Slip::TiesDropped;
        order[k..].iter().filter(|id| !(ties && logits[**id] == least)).for_each(|&id| p[id] = 0.0);
        if slip == Slip::LogitsOfZero {
            let kept: Vec<f32> = logits.iter().zip(&p).map(|(logit, p)| if *p > 0.0 { *logit } else { 0.0 }).collect();
            return reference(&kept, &Sampling { top_k: None, ..*sampling }, Slip::None);
        }
        if slip != Slip::NotNormalisedAfterK && slip != Slip::NotNormalised {
            p = normalised(p);
        }
    }
    if slip == Slip::WeightsForP {
        let largest = p[order[0]];
        p.iter_mut().for_each(|p| *p /= largest);
    }
    if slip == Slip::LogitsForP {
        order.sort_unstable();
    }
    if top_p < 1.0 && slip != Slip::NoTopP {
        let (mut sum, mut kept, mut more) = (0.0, vec![0.0; p.len()], usize::from(slip == Slip::OneMoreThanP));
        for &id in &order {
            if sum >= top_p {
                if more == 0 {
                    break;
                }
                more -= 1;
            }
            sum += p[id];
            if !(slip == Slip::CrossingDropped && sum >= top_p) {
                kept[id] = p[id];
            }
        }
        p = kept;
    }
    if slip == Slip::TemperatureLast {
        let cooled = softmax(temperature);
        p.iter_mut().zip(cooled).filter(|(p, _)| **p > 0.0).for_each(|(p, cooled)| *p = cooled);
    }
    if slip == Slip::NotNormalised { p } else { normalised(p) }
}

/// The token that `uniform` draws.
pub(super) fn drawn_by(logits: &[f32], sampling: &Sampling, uniform: f64) -> usize {
    let mut order: Vec<usize> = (0..logits.len()).collect();
    order.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]));
    if sampling.temperature == 0.0 { order[0] } else { place_of(&reference(logits, sampling, Slip::None), uniform) }
}

/// In whose stretch `uniform` lies.
fn place_of(p: &[f64], uniform: f64) -> usize {
    let mut sum = 0.0;
    let passes = p.iter().position(|p| {
        sum += p;
        sum > uniform
    });
    passes.or_else(|| p.iter().rposition(|p| *p > 0.0)).unwrap_or(0)
}

fn normalised(mut p: Vec<f64>) -> Vec<f64> {
    let sum: f64 = p.iter().sum();
    p.iter_mut().for_each(|p| *p /= sum);
    p
}

type Yours<'a> = dyn Fn(&[f32], &Sampling) -> Vec<f64> + 'a;

/// Checks `probabilities(logits, sampling)`.
pub fn check_probabilities(yours: fn(&[f32], &Sampling) -> Vec<f64>) -> Score {
    let (all, none) = (1.0, None);
    let of = |kinds: &[(f64, Option<usize>, f64)]| compare(&yours, kinds);
    Score::new("probabilities", PROBABILITIES_HINTS)
        .point(
            "softmax of the logits over the temperature",
            of(&[(1.0, none, all), (0.5, none, all), (2.5, none, all), (0.05, none, all)])
                .and_then(|()| far_apart(&yours)),
        )
        .point("at temperature 0, the first of the likeliest tokens has it all", greedy(&yours))
        .point(
            "top-k keeps the k likeliest, and what equals the last of them",
            of(&[(1.0, Some(1), all), (1.0, Some(3), all), (0.7, Some(8), all), (1.0, Some(10_000), all)])
                .and_then(|()| ties(&yours)),
        )
        .point(
            "top-p keeps the fewest that reach its share of what top-k left",
            of(&[(1.0, none, 0.9), (1.0, none, 0.35), (0.6, none, 0.7), (1.8, none, 0.7), (1.0, none, 1e-9)])
                .and_then(|()| of(&[(1.0, Some(4), 0.75), (1.4, Some(6), 0.6), (0.8, Some(2), 0.99)]))
                .and_then(|()| equals(&yours)),
        )
}

fn compare(yours: &Yours<'_>, kinds: &[(f64, Option<usize>, f64)]) -> Verdict {
    let mut rng = random(20);
    let mut trials = Vec::new();
    // Two later: of two tokens, many mistakes make the same.
    for n in [7, 2, 12, 12, 300] {
        for &(temperature, top_k, top_p) in kinds {
            // Logits over a low temperature are so large that float32, which will do elsewhere, is too coarse.
            let shift = if temperature < 0.1 { 0.0 } else { [0.0, 900.0, -900.0][n % 3] };
            let mut logits = numbers(&mut rng, n, 4.0);
            logits.iter_mut().for_each(|logit| *logit += shift);
            trials.push(trial(yours, &logits, &Sampling { temperature, top_k, top_p })?);
        }
    }
    all_close(&trials, IF_NAN)
}

const IF_NAN: &str = "e to the power of a large logit is infinite; subtract the largest logit, which \
                      may be below 0, from all of them first";

fn trial(yours: &Yours<'_>, logits: &[f32], sampling: &Sampling) -> Result<Trial, Complaint> {
    let got = ask(|| Ok(yours(logits, sampling)))?;
    let expected = reference(logits, sampling, Slip::None);
    let Sampling { temperature, top_k, top_p } = sampling;
    let k = top_k.map_or(String::new(), |k| format!(", top-k {k}"));
    let p = if *top_p < 1.0 { format!(", top-p {top_p}") } else { String::new() };
    let what = format!("probabilities of {} tokens at temperature {temperature}{k}{p}", logits.len());
    let mistakes = SLIPS.map(|(slip, why)| (reference(logits, sampling, slip), why)).to_vec();
    Ok(Trial { what, got, expected, mistakes })
}

/// Logits so far apart that less than the largest, subtracted, leaves one whose power of e is infinite.
fn far_apart(yours: &Yours<'_>) -> Verdict {
    let sampling = Sampling { temperature: 0.5, top_k: None, top_p: 1.0 };
    let logits = [[-300.0, 60.0, 59.5, -301.0], [-300.0, 60.0, -300.0, -301.0]];
    let trials: Vec<Trial> = logits.iter().map(|logits| trial(yours, logits, &sampling)).collect::<Result<_, _>>()?;
    all_close(&trials, IF_NAN)
}

/// Logits of which several are equal, in any order.
fn ties(yours: &Yours<'_>) -> Verdict {
    let mut logits = vec![3.0, 2.0, 2.0, 2.0, 1.0, 0.5, 0.5, -1.0];
    let mut rng = random(21);
    let mut trials = Vec::new();
    for k in [2, 3, 4, 6] {
        logits.shuffle(&mut rng);
        trials.push(trial(yours, &logits, &Sampling { temperature: 1.0, top_k: Some(k), top_p: 1.0 })?);
    }
    all_close(&trials, IF_NAN)
}

/// Equally likely tokens, of which any may stay.
fn equals(yours: &Yours<'_>) -> Verdict {
    let mut trials = Vec::new();
    // Halves and quarters, so that their sums are exact.
    for (n, top_p, kept) in [(2, 0.5, 1), (4, 0.5, 2), (4, 0.6, 3)] {
        let mut got = ask(|| Ok(yours(&vec![0.0; n], &Sampling { temperature: 1.0, top_k: None, top_p })))?;
        got.sort_by(|a, b| b.total_cmp(a));
        let alike = |kept: usize| (0..n).map(|i| if i < kept { 1.0 / kept as f64 } else { 0.0 }).collect::<Vec<f64>>();
        let mistakes = vec![
            (alike(kept + 1), "top-p stops where the sum is *at least* `top_p`, so also where it equals it"),
            (alike(n), "top-p keeps the fewest tokens: of equally likely ones, no more than reach the sum"),
        ];
        let what = format!("probabilities of {n} tokens that are equally likely, top-p {top_p}, by rank");
        trials.push(Trial { what, got, expected: alike(kept), mistakes });
    }
    all_close(&trials, IF_NAN)
}

fn greedy(yours: &Yours<'_>) -> Verdict {
    let mut rng = random(22);
    let mut trials = Vec::new();
    for (n, top_k, top_p) in [(2, None, 1.0), (9, Some(3), 0.5), (40, None, 0.9), (6, None, 1.0)] {
        let mut logits = numbers(&mut rng, n, 3.0);
        let (first, second) = (rng.random_range(0..n / 2), rng.random_range(n / 2..n));
        (logits[first], logits[second]) = (5.0, 5.0);
        // All are negative in some.
        let shift = if n % 2 == 0 { -20.0 } else { 0.0 };
        logits.iter_mut().for_each(|logit| *logit += shift);
        let only = |id: usize| (0..n).map(|i| if i == id { 1.0 } else { 0.0 }).collect::<Vec<f64>>();
        let got = ask(|| Ok(yours(&logits, &Sampling { temperature: 0.0, top_k, top_p })))?;
        let halves = (0..n).map(|i| if i == first || i == second { 0.5 } else { 0.0 }).collect();
        let mistakes = vec![
            (only(second), "of equal logits, the first has it all (`max_by` returns the last)"),
            (halves, "of equal logits, only the first has it all"),
            (only(0), "seek the largest logit from the first one on, not from 0: all may be negative"),
        ];
        let what = format!("probabilities of {n} tokens at temperature 0");
        trials.push(Trial { what, got, expected: only(first), mistakes });
    }
    all_close(&trials, "nothing can be divided by a temperature of 0: give the likeliest token a probability of 1")
}

/// Random numbers in [0, 1), the same ones for the same seed.
pub fn uniform_numbers(seed: u64, n: usize) -> Vec<f64> {
    let mut rng = random(seed);
    (0..n).map(|_| rng.random()).collect()
}

const DRAW_HINTS: [&str; 3] = [
    "Lay the probabilities side by side from 0 to 1, in the order of the ids. In whose stretch does the uniform number lie?",
    "Add them up one by one: the token is the first with which the sum exceeds `uniform`. Rounding can leave the whole sum a \
     hair below `uniform`: then it is the last token that has a probability.",
    "`for (id, p) in probabilities.iter().enumerate() { sum += p; if sum > uniform { return id as u32; } }`, and at the end \
     `probabilities.iter().rposition(|&p| p > 0.0)`.",
];

/// Checks `draw(probabilities, uniform)`.
pub fn check_draw(yours: fn(&[f64], f64) -> u32) -> Score {
    let in_places = || -> Verdict {
        let (mut rng, mut draws) = (random(23), Vec::new());
        for n in [1, 2, 3, 8, 50] {
            // Some tokens have none, and the last one sometimes.
            let mut p: Vec<f64> = numbers(&mut rng, n, 1.0).iter().map(|p| f64::from(p.max(0.0))).collect();
            if n > 2 && n % 2 == 0 || p.iter().sum::<f64>() == 0.0 {
                p[n - 1] = 0.8;
            }
            let p = normalised(p);
            for u in (0..40).map(|_| rng.random_range(0.0..0.999)) {
                draws.push(drawn(&yours, &p, u)?);
            }
        }
        // As large as a vocabulary is, most of it unlikely: in the middle of a token's stretch.
        let mut p = vec![5e-7; 100_000];
        p[3] += 0.95;
        for id in [2, 300, 40_000, 70_001, 99_999] {
            draws.push(drawn(&yours, &p, p[..id].iter().sum::<f64>() + 2.5e-7)?);
        }
        all_drawn(&draws)
    };
    let at_edges = || -> Verdict {
        let mut draws = Vec::new();
        // An edge followed by tokens that have none.
        let gaps = (0..9).map(|gap| [&[0.25][..], &vec![0.0; gap], &[0.5, 0.25]].concat());
        for p in [vec![0.0, 0.25, 0.0, 0.5, 0.25, 0.0]].into_iter().chain(gaps) {
            for u in [1.0 - f64::EPSILON, 0.0, 0.25, 0.75] {
                draws.push(drawn(&yours, &p, u)?);
            }
        }
        // Rounded, they add up to less than 1.
        for p in [&[0.0, 0.3, 0.7 - 1e-12, 0.0][..], &[0.0, 0.3, 0.7 - 1e-12], &[0.3, 0.7 - 1e-12, 0.0, 0.0]] {
            draws.push(drawn(&yours, p, 1.0 - 1e-13)?);
        }
        all_drawn(&draws)
    };
    Score::new("draw", DRAW_HINTS)
        .point("the token in whose stretch the number lies", in_places())
        .point("at the edges, never one without a probability", at_edges())
}

fn drawn(yours: &dyn Fn(&[f64], f64) -> u32, p: &[f64], u: f64) -> Result<Given<usize>, Complaint> {
    let got = ask(|| Ok(yours(p, u)))? as usize;
    let expected = place_of(p, u);
    let by_rank = {
        let mut order: Vec<usize> = (0..p.len()).collect();
        order.sort_by(|&a, &b| p[b].total_cmp(&p[a]));
        order[place_of(&order.iter().map(|&id| p[id]).collect::<Vec<_>>(), u)]
    };
    let from_the_end = p.len() - 1 - place_of(&p.iter().rev().copied().collect::<Vec<_>>(), u);
    let likeliest = (0..p.len()).fold(0, |best, id| if p[id] > p[best] { id } else { best });
    // By the sums before and with a token.
    let first = |is_it: fn(f64, f64, f64) -> bool| {
        let mut sum = 0.0;
        let place = p.iter().position(|p| {
            let before = sum;
            sum += p;
            is_it(before, sum, u)
        });
        place.unwrap_or(usize::MAX)
    };
    let mut single = 0.0_f32;
    let in_single = p.iter().position(|p| {
        single += *p as f32;
        single > u as f32
    });
    let possible: Vec<usize> = (0..p.len()).filter(|id| p[*id] > 0.0).collect();
    let among_possible = possible.iter().position(|id| *id == expected).unwrap_or(0);
    let mut mistakes = vec![
        (by_rank, "the stretches lie in the order of the ids, not the likeliest first"),
        (from_the_end, "the stretches lie in the order of the ids, from 0 on"),
        (likeliest, "that is the likeliest token, whatever the number is"),
        (first(|before, _, u| before > u), "is the token's own probability in the sum before you compare?"),
        (first(|_, sum, u| sum >= u), "at an edge, the next stretch begins: the sum must exceed the number"),
        (in_single.unwrap_or(usize::MAX), "add in double precision: some stretches are too narrow for float32"),
        (among_possible, "that is its place among the tokens that have a probability; the id counts all"),
    ];
    match p.get(got) {
        None => {
            mistakes.push((got, "there is no such token; rounding can leave the whole sum a hair below the number"));
        }
        Some(0.0) if p.iter().sum::<f64>() <= u => mistakes.push((
            got,
            "it has a probability of 0. Rounding can leave the whole sum a hair below the number: then it is the last \
             token that has a probability",
        )),
        _ => (),
    }
    let as_wide = "a token's stretch is as wide as its probability";
    mistakes.push(((u * p.len() as f64) as usize, as_wide));
    mistakes.push((possible[(u * possible.len() as f64) as usize], as_wide));
    let shown: Vec<String> = p.iter().take(8).map(|p| format!("{p:.3}")).collect();
    let more = if p.len() > 8 { format!(", ... {} in all", p.len()) } else { String::new() };
    Ok(Given { what: format!("draw([{}{more}], {u})", shown.join(", ")), got, expected, mistakes })
}

/// Names a mistake only if it explains most of what is wrong: of so few ids, many give the same by chance.
fn all_drawn(draws: &[Given<usize>]) -> Verdict {
    let all_wrong: Vec<&Given<usize>> = draws.iter().filter(|given| given.got != given.expected).collect();
    let Some(wrong) = all_wrong.first() else { return Ok(()) };
    let gives = |given: &Given<usize>, why| given.mistakes.contains(&(given.got, why));
    let explained = |why| all_wrong.iter().filter(|given| gives(given, why)).count();
    let possible = wrong.mistakes.iter().map(|(_, why)| *why).filter(|why| gives(wrong, why)).rev();
    let found = possible.max_by_key(|why| explained(why)).filter(|why| 2 * explained(why) > all_wrong.len());
    let why = found.map(|why| format!(": {why}")).unwrap_or_default();
    wrong!("{} is {}, expected {}{why}", wrong.what, wrong.got, wrong.expected)
}

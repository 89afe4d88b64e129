//! `attend`: what one token sees of those up to it.

use super::Shape;
use super::reference::{self, Slip};
use super::trials::{Trial, heads, in_each, numbers, shapes, wide};
use crate::cases::random;
use crate::figure::counted;
use crate::{Complaint, Score, ask};

const HINTS: [&str; 3] = [
    "Which rows of `keys` may the token at `position` see, and which part of a row belongs to head h?",
    "For each head h: its query is `q[h * d..][..d]`; it reads keys and values of head `h / (n_head / n_kv_head)`, in the rows \
     0 to `position`. Scores are dot products over the square root of d; softmax makes weights of them; the output is the sum \
     of the values, each times its weight.",
    "`let width = shape.n_kv_head * d; let start = t * width + h / group * d;` is where head h finds the key (and value) of \
     token t: `&keys[start..start + d]`. Subtract the largest score before `exp`, and divide by the sum of all `exp`.",
];

const SLIPS: [(Slip, &str); 8] = [
    (Slip::NotScaled, "the scores are not divided by the square root of the head's width"),
    (Slip::ScaledByWidth, "divide the scores by the square root of the head's width, not by the width"),
    (Slip::NotCausal, "the token sees tokens after it: only rows 0 to `position` take part"),
    (Slip::NotItself, "the token does not see itself: row `position` takes part too"),
    (
        Slip::HeadsInTurn,
        "heads that share keys and values are neighbours: head h reads number h / (n_head / n_kv_head), not h % n_kv_head",
    ),
    (Slip::FirstKeyHead, "all heads read the first head of keys and values"),
    (Slip::NotNormalised, NOT_NORMALISED),
    (Slip::NotNormalisedShifted, NOT_NORMALISED),
];

const NOT_NORMALISED: &str = "the weights do not add up to 1: divide by the sum of all `exp`";
const STAYS_ZERO: &str = "all of it is 0: add each value, times its weight, to the output";

type Yours<'a> = dyn Fn(&[f32], &[f32], &[f32], usize, &Shape) -> Vec<f32> + 'a;

/// Checks `attend(q, keys, values, position, shape)`.
pub fn check_attend(yours: fn(&[f32], &[f32], &[f32], usize, &Shape) -> Vec<f32>) -> Score {
    let [one, own, pairs, fours] = shapes();
    let if_nan = "e to the power of a large score is infinite; subtract the largest score, which may be below 0, from all of \
                  them first. Softmax sees differences only. (At position 0, it can also be 0 / 0: the token sees \
                  itself)";
    let of = |shapes: &[Shape], places: &[(usize, usize)], most| in_each(trials(&yours, shapes, places, most), if_nan);
    let last = |shapes: &[Shape], most| of(shapes, &[(1, 0), (2, 1), (5, 4), (23, 22)], most);
    Score::new("attend", HINTS)
        .point("each head's own keys and values", last(&[one, own], 1.5))
        .point("heads that share keys and values", last(&[pairs, fours], 1.5))
        .point("tokens after it are not seen", of(&[own, pairs], &[(4, 0), (7, 3), (9, 8)], 1.5))
        .point("large scores stay finite", last(&[one, own, pairs], 60.0))
}

/// Each shape with each number of tokens and position, with numbers up to `most`.
fn trials(yours: &Yours<'_>, shapes: &[Shape], places: &[(usize, usize)], most: f32) -> Result<Vec<Trial>, Complaint> {
    let mut rng = random(6);
    let mut trials = Vec::new();
    for (shape, &(count, position)) in shapes.iter().flat_map(|shape| places.iter().map(move |place| (shape, place))) {
        let Shape { n_head, n_kv_head, head_dim, .. } = *shape;
        let width = n_kv_head * head_dim;
        let q = numbers(&mut rng, n_head * head_dim, most);
        let (keys, values) = (numbers(&mut rng, count * width, most), numbers(&mut rng, count * width, 1.0));
        let got = ask(|| Ok(yours(&q, &keys, &values, position, shape)))?;
        let [q, keys, values] = [&q, &keys, &values].map(|x| wide(x));
        let of = |slip| reference::attend(&q, &keys, &values, position, shape, slip);
        let what =
            format!("attend at position {position} of {}, width {head_dim}, {}", counted(count, "token"), heads(shape));
        let trial = Trial::new(what, &got, of(Slip::None)).mistakes(SLIPS.map(|(slip, why)| (of(slip), why)));
        trials.push(trial.mistakes([(vec![0.0; n_head * head_dim], STAYS_ZERO)]));
    }
    Ok(trials)
}

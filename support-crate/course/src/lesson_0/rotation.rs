//! `rotate`: a head of queries or keys, turned by its position.

use rand::Rng;

use super::reference::{self, Slip};
use super::trials::{Trial, in_each, numbers, wide};
use crate::cases::random;
use crate::{Complaint, Score, changed};

const HINTS: [&str; 3] = [
    "Which two numbers of a head are turned together, and by which angle are the first two turned?",
    "With D numbers in a head, number i and number i + D/2 are a pair, for i from 0 to D/2 - 1. Its angle is `position` times \
     base to the power of -2i/D. Keep both old numbers before you write either new one.",
    "`let angle = position as f32 * base.powf(-2.0 * i as f32 / d as f32); let (sin, cos) = angle.sin_cos(); let (a, b) = \
     (head[i], head[i + d / 2]); head[i] = a * cos - b * sin; head[i + d / 2] = b * cos + a * sin;`",
];

const SLIPS: [(Slip, &str); 7] = [
    (
        Slip::Interleaved,
        "that turns neighbours, as the paper writes it; these weights are laid out for number i and number i + D/2",
    ),
    (Slip::OtherWay, "that turns the other way: (a, b) becomes (a cos - b sin, b cos + a sin)"),
    (Slip::OnePositionOn, "positions count from 0: the first token is not turned"),
    (Slip::ExponentHalf, "the exponent is 2i/D: the frequencies go from 1 to nearly 1/base"),
    (Slip::ExponentDouble, "the exponent is 2i/D, where D is the head's width, not the number of its pairs"),
    (Slip::AngleInDegrees, "`sin` and `cos` take radians, and the angle is in radians already"),
    (Slip::NotRotated, "nothing was turned: write the new numbers into `head`"),
];

/// Checks `rotate(head, position, base)`.
pub fn check_rotate(yours: fn(&mut [f32], usize, f32)) -> Score {
    let trials = |widths: &[usize], positions: &[usize], bases: &[f32]| -> Result<Vec<Trial>, Complaint> {
        let mut rng = random(4);
        let mut trials = Vec::new();
        for &d in widths {
            for (&position, &base) in positions.iter().flat_map(|p| bases.iter().map(move |b| (p, b))) {
                let before = numbers(&mut rng, d, 2.0);
                let head = changed(before.clone(), |head| yours(head, position, base))?;
                let of = |slip| {
                    let mut head = wide(&before);
                    reference::rotate(&mut head, position, base.into(), slip);
                    head
                };
                let half_written = {
                    let (mut head, half) = (wide(&before), d / 2);
                    for i in 0..half {
                        let (sin, cos) = (position as f64 * f64::from(base).powf(-2.0 * i as f64 / d as f64)).sin_cos();
                        head[i] = head[i] * cos - head[i + half] * sin;
                        head[i + half] = head[i + half] * cos + head[i] * sin;
                    }
                    (head, "the second number of a pair needs the old first one: keep both before you write either")
                };
                let what = format!("rotate of {d} numbers, position {position}, base {base}");
                let mistakes = SLIPS.map(|(slip, why)| (of(slip), why)).into_iter().chain([half_written]);
                trials.push(Trial::new(what, &head, of(Slip::None)).mistakes(mistakes));
            }
        }
        Ok(trials)
    };
    let mut rng = random(5);
    let some: Vec<usize> = (0..6).map(|_| rng.random_range(1..40)).collect();
    let if_nan = "is the base raised to a power, and not something below 0?";
    let any = [2, 4, 6, 64];
    Score::new("rotate", HINTS)
        .point("at position 0, nothing is turned", in_each(trials(&any, &[0], &[100.0, 1e4]), if_nan))
        .point(
            "pairs are turned by angles that grow with the position",
            // Far along, the angles of narrow heads alone are exact enough in float32.
            in_each(trials(&any, &some, &[1e4]), if_nan)
                .and_then(|()| in_each(trials(&[2, 4], &[150, 1000, 3000], &[1e4]), if_nan)),
        )
        .point("the base decides how fast", in_each(trials(&any, &[1, 7, 23], &[50.0, 1e5, 5e5]), if_nan))
}

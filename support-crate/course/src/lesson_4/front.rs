//! `pareto_front`: the choices that no other one beats.

use rand::Rng;

use crate::cases::{random, size};
use crate::figure::each_once;
use crate::{Score, Verdict, ask};

type Points<'a> = &'a [(f64, f64)];

const HINTS: [&str; 3] = [
    "What must another point be like, in each of the two numbers, to make this one not worth having?",
    "A point is beaten by one that is no worse in both numbers (`<=`) and is not the same. Keep the indices of those that \
     no other beats.",
    "`let beats = |a: (f64, f64), b: (f64, f64)| a.0 <= b.0 && a.1 <= b.1 && a != b;` and \
     `(0..points.len()).filter(|&i| !points.iter().any(|&other| beats(other, points[i]))).collect()`",
];

/// Checks `pareto_front(points)`: indices, in the order of the points.
pub fn check_pareto_front(yours: fn(Points<'_>) -> Vec<usize>) -> Score {
    let each = |cases: &[Vec<(f64, f64)>]| -> Verdict {
        cases.iter().try_for_each(|points| is_front(points, ask(|| Ok(yours(points)))?))
    };
    let ties = each(&[vec![(1.0, 1.0), (1.0, 2.0)], vec![(2.0, 1.0), (1.0, 1.0)]])
        .and_then(|()| each(&random_cases(4).into_iter().map(each_once).collect::<Vec<_>>()));
    // Where ties are wrong, twins among ties say nothing new.
    let twins = each(&[vec![(1.0, 2.0), (1.0, 2.0), (3.0, 4.0)]])
        .and_then(|()| if ties.is_ok() { each(&random_cases(4)) } else { Ok(()) });
    Score::new("pareto_front", HINTS)
        .point("a point that another one beats in both numbers is not on it, and all others are", {
            each(&[vec![(1.0, 1.0), (2.0, 2.0)], vec![(3.0, 3.0), (1.0, 2.0), (2.0, 1.0)]])
                .and_then(|()| each(&random_cases(1000)))
        })
        .point("nor is one that is as good in one number and worse in the other", ties)
        .point("two equal points do not beat each other", twins)
        .point("one point, and none", each(&[vec![(5.0, 0.0)], vec![]]))
}

/// Points whose numbers are one of a few, or of so many that none is likely to come twice.
fn random_cases(values: u32) -> Vec<Vec<(f64, f64)>> {
    let mut rng = random(46);
    let mut case = || {
        let n = size(&mut rng, 60);
        (0..n)
            .map(|_| (f64::from(rng.random_range(0..values)), 1e-3 * f64::from(rng.random_range(0..values))))
            .collect()
    };
    (0..30).map(|_| case()).collect()
}

fn is_front(points: Points<'_>, got: Vec<usize>) -> Verdict {
    let beats = |a: (f64, f64), b: (f64, f64)| a.0 <= b.0 && a.1 <= b.1 && a != b;
    let beaten_by = |index: usize| points.iter().position(|&other| beats(other, points[index]));
    let expected: Vec<usize> = (0..points.len()).filter(|&index| beaten_by(index).is_none()).collect();
    if got == expected {
        return Ok(());
    }
    let shown = || {
        let few: Vec<String> = points.iter().take(4).map(|(a, b)| format!("({a}, {b:.3})")).collect();
        format!("of {} points {}{}", points.len(), few.join(" "), if points.len() > few.len() { " ..." } else { "" })
    };
    if let Some(far) = got.iter().find(|&&index| index >= points.len()) {
        return wrong!("{}: there is no point {far}", shown());
    }
    if let Some((&kept, by)) = got.iter().find_map(|kept| Some((kept, beaten_by(*kept)?))) {
        let (a, b) = (points[kept], points[by]);
        let how =
            if b.0 < a.0 && b.1 < a.1 { "in both numbers" } else { "in one number, and it is as good in the other" };
        return wrong!("{}: point {kept} {a:?} is not on the front: point {by} {b:?} is better {how}", shown());
    }
    if let Some(&missing) = expected.iter().find(|index| !got.contains(index)) {
        let twin = points.iter().enumerate().any(|(index, point)| index != missing && *point == points[missing]);
        let why = if twin { "; its twin, which is equal, does not beat it" } else { "" };
        return wrong!("{}: point {missing} {:?} is missing, and none beats it{why}", shown(), points[missing]);
    }
    wrong!("{}: each index once, in the order of the points, not {got:?}", shown())
}

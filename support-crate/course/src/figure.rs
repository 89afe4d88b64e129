//! What an answer gave, against what is right and what well-known mistakes give.

use super::Verdict;

/// One value that an answer gave.
pub(super) struct Given<V> {
    /// What it measures, or was called with, for the message.
    pub what: String,
    pub got: V,
    pub expected: V,
    /// What mistakes give in its place, each with what to say about it.
    pub mistakes: Vec<(V, &'static str)>,
}

/// One number that an answer gave.
pub(super) type Figure = Given<f64>;

/// Two numbers that are the same but for the rounding of a few operations.
pub(super) fn is_close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * b.abs()
}

/// The first value that is wrong, and what to say about it, behind a colon: of the mistakes that give it the one that
/// explains the most other values too, because two mistakes sometimes give the same. One that explains less than a
/// third of the wrong values is a coincidence.
pub(super) fn first_wrong<V>(all: &[Given<V>], is_close: impl Fn(&V, &V) -> bool) -> Option<(&Given<V>, String)> {
    let wrong = all.iter().find(|given| !is_close(&given.got, &given.expected))?;
    let gives = |given: &Given<V>, why: &str| {
        given.mistakes.iter().any(|(value, mistake)| *mistake == why && is_close(&given.got, value))
    };
    let possible = wrong.mistakes.iter().map(|(_, why)| *why).filter(|why| gives(wrong, why));
    let wrongs: Vec<&Given<V>> = all.iter().filter(|given| !is_close(&given.got, &given.expected)).collect();
    let possible = possible.filter(|why| 3 * wrongs.iter().filter(|given| gives(given, why)).count() >= wrongs.len());
    // Of equals, the first one: `max_by_key` returns the last of the reversed list.
    let found = possible.rev().max_by_key(|why| all.iter().filter(|given| gives(given, why)).count());
    Some((wrong, found.map(|why| format!(": {why}")).unwrap_or_default()))
}

/// # Errors
/// As [`first_wrong`] finds it.
pub(super) fn all_right(figures: &[Figure], is_close: fn(f64, f64) -> bool) -> Verdict {
    let Some((wrong, why)) = first_wrong(figures, |a, b| is_close(*a, *b)) else { return Ok(()) };
    let Figure { what, got, expected, .. } = wrong;
    let [got, expected] = apart(4, [*got, *expected], shown);
    wrong!("{what} is {got}, expected {expected}{why}")
}

/// The same for numbers that are counted.
///
/// # Errors
/// As [`first_wrong`] finds it.
pub(super) fn all_counted(counts: &[Given<usize>]) -> Verdict {
    let Some((wrong, why)) = first_wrong(counts, |a, b| a == b) else { return Ok(()) };
    wrong!("{} is {}, expected {}{why}", wrong.what, wrong.got, wrong.expected)
}

/// The mean of some values, each counted as many times as its weight says.
pub(super) fn weighted_mean(values: impl Iterator<Item = f64>, weights: impl Iterator<Item = usize>) -> f64 {
    let (sum, all) =
        values.zip(weights).fold((0.0, 0), |(sum, all), (value, weight)| (sum + value * weight as f64, all + weight));
    sum / all as f64
}

pub(super) fn mean(values: impl Iterator<Item = f64>) -> f64 {
    weighted_mean(values, std::iter::repeat(1))
}

pub(super) fn largest_magnitude(values: &[f32]) -> f32 {
    values.iter().fold(0.0, |largest, value| largest.max(value.abs()))
}

/// Each value once, where it comes first.
pub(super) fn each_once<T: PartialEq>(values: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut once = Vec::new();
    for value in values {
        if !once.contains(&value) {
            once.push(value);
        }
    }
    once
}

/// A number of things, in words.
pub(super) fn counted(count: usize, thing: &str) -> String {
    let ending = match thing {
        _ if count == 1 => "",
        _ if thing.ends_with("ch") => "es",
        _ => "s",
    };
    format!("{count} {thing}{ending}")
}

/// Two numbers, shown with the fewest digits from `least` on that tell them apart.
pub(super) fn apart(least: usize, numbers: [f64; 2], shown: fn(f64, usize) -> String) -> [String; 2] {
    let with = |digits: usize| numbers.map(|number| shown(number, digits));
    let differ = |[a, b]: &[String; 2]| a.parse::<f64>() != b.parse::<f64>();
    (least..20).map(with).find(differ).unwrap_or_else(|| with(least))
}

/// So many digits after the decimal point, or as many significant ones where these would be zeros.
fn shown(number: f64, digits: usize) -> String {
    // Turns -0 into 0.
    let number = number + 0.0;
    if number == 0.0 || number.abs() >= 1e-2 {
        format!("{number:.digits$}")
    } else {
        format!("{number:.*e}", digits - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A figure, the right one, and what two mistakes give.
    type Case = (f64, f64, [(f64, &'static str); 2]);

    fn message(figures: &[Case]) -> String {
        let figures: Vec<Figure> = figures
            .iter()
            .map(|&(got, expected, mistakes)| Figure {
                what: "x".to_owned(),
                got,
                expected,
                mistakes: mistakes.to_vec(),
            })
            .collect();
        let verdict = all_right(&figures, |a, b| (a - b).abs() < 1e-9);
        verdict.map_or_else(|complaint| complaint.to_string(), |()| "right".to_owned())
    }

    #[test]
    fn figures_are_right_known_mistakes_or_just_wrong() {
        let one = |got| message(&[(got, 1.0, [(2.0, "twice"), (f64::NAN, "never equal")])]);
        assert_eq!(one(1.0), "right");
        assert_eq!(one(2.0), "x is 2.0000, expected 1.0000: twice");
        assert_eq!(one(3.0), "x is 3.0000, expected 1.0000");
        assert_eq!(one(f64::NAN), "x is NaN, expected 1.0000");
        assert_eq!(one(2e-7), "x is 2.000e-7, expected 1.0000");
        assert_eq!(one(1.00001), "x is 1.00001, expected 1.00000");
        assert_eq!(message(&[(2.0003e-3, 2.0004e-3, [(1.0, ""); 2])]), "x is 2.0003e-3, expected 2.0004e-3");
    }

    #[test]
    fn things_are_counted_in_english() {
        let all = [counted(0, "token"), counted(1, "token"), counted(1, "batch"), counted(2, "batch")];
        assert_eq!(all, ["0 tokens", "1 token", "1 batch", "2 batches"]);
    }

    #[test]
    fn the_mistake_that_explains_more_is_named() {
        let twice_or_squared = |got, x: f64| (got, x, [(2.0 * x, "twice"), (x * x, "squared")]);
        assert!(message(&[twice_or_squared(4.0, 2.0), twice_or_squared(9.0, 3.0)]).ends_with("squared"));
        assert!(message(&[twice_or_squared(4.0, 2.0), twice_or_squared(6.0, 3.0)]).ends_with("twice"));
        assert!(message(&[twice_or_squared(4.0, 2.0)]).ends_with("twice"));
        let others = [5.0, 7.0, 9.0].map(|got| twice_or_squared(got, 1.0));
        let all = [&[twice_or_squared(6.0, 3.0)], &others[..]].concat();
        assert_eq!(message(&all), "x is 6.0000, expected 3.0000");
    }
}

//! `padding_share`: how much of what a model computes is padding.

use super::is_close;
use crate::cases::{random, size};
use crate::figure::{Figure, all_right, mean};
use crate::{Complaint, Score, ask};

const HINTS: [&str; 3] = [
    "A batch is a rectangle: a row for each text, all as long as the longest. How many places has it, and how many of them \
     hold a token?",
    "Add up the rectangles of all batches, `batch.len() * longest`, and the tokens of all texts. What the rectangles have \
     more is padding; divide it once, at the end, by all that is computed.",
    "`let computed: usize = lengths.chunks(batch_size).map(|batch| batch.len() * batch.iter().max().unwrap_or(&0)).sum();` \
     and then `(computed - tokens) as f64 / computed.max(1) as f64`, so that nothing over nothing is 0.",
];

/// Checks `padding_share(lengths, batch_size)`.
pub fn check_padding_share(yours: fn(&[usize], usize) -> f64) -> Score {
    let figures = |cases: Vec<(Vec<usize>, usize)>| -> Result<Vec<Figure>, Complaint> {
        let figure =
            |(lengths, size): (Vec<usize>, usize)| Ok(figure(&lengths, size, ask(|| Ok(yours(&lengths, size)))?));
        cases.into_iter().map(figure).collect()
    };
    let shares = figures(cases());
    Score::new("padding_share", HINTS)
        .about(&shares, "it is the padding's part of all that is computed, in batches of any size", |shares| {
            all_right(shares, is_close)
        })
        .about(&shares, "where nothing is computed, it is 0", |_| {
            let nothing = vec![(vec![], 4), (vec![0, 0, 0], 2), (vec![0], 1)];
            figures(nothing)?.into_iter().try_for_each(|Figure { what, got, .. }| {
                Complaint::unless(got == 0.0, || {
                    format!(
                        "{what} is {got}: these texts have no token, so nothing is computed, and none of it is padding"
                    )
                })
            })
        })
}

/// Lengths in no order, sorted both ways, alike, one far above the others, and texts without a token; batches of one, of
/// all, and a last one that is not full.
fn cases() -> Vec<(Vec<usize>, usize)> {
    let mut cases = vec![
        (vec![3, 5, 2, 4], 2),
        (vec![85, 3, 30, 31, 7], 2),
        (vec![7, 7, 7, 7], 3),
        (vec![4, 9, 1], 1),
        (vec![2, 8, 5], 16),
        (vec![1, 400], 2),
        (vec![0, 6, 3, 0, 0, 0, 2, 9], 2),
    ];
    let mut rng = random(59);
    for batch_size in [3, 8, 16] {
        let mut lengths: Vec<usize> = (0..37).map(|_| size(&mut rng, 120)).collect();
        cases.push((lengths.clone(), batch_size));
        lengths.sort_unstable();
        cases.push((lengths.clone(), batch_size));
        lengths.reverse();
        cases.push((lengths, batch_size));
    }
    cases
}

fn figure(lengths: &[usize], batch_size: usize, got: f64) -> Figure {
    let longest = |batch: &[usize]| batch.iter().copied().max().unwrap_or(0);
    let text = |lengths: &[usize]| lengths.iter().sum::<usize>();
    let computed = |size: fn(&[usize]) -> usize| lengths.chunks(batch_size).map(size).sum::<usize>();
    let share = |computed: usize, text: usize| (computed as f64 - text as f64) / computed.max(1) as f64;
    let (all, tokens) = (computed(|batch| batch.len() * batch.iter().max().unwrap_or(&0)), text(lengths));
    let expected = share(all, tokens);
    let in_full = lengths.chunks_exact(batch_size);
    let full = &lengths[..lengths.len() - in_full.remainder().len()];
    let of_full: usize = in_full.map(|batch| batch_size * longest(batch)).sum();
    let batches = lengths.chunks(batch_size).map(|batch| share(batch.len() * longest(batch), text(batch)));
    let mistakes = vec![
        (1.0 - expected, "this is the share of text"),
        ((all - tokens) as f64 / tokens.max(1) as f64, "divide by all that is computed, not by the text alone"),
        (100.0 * expected, "this is in percent; a share is at most 1"),
        ((all - tokens) as f64, "this is how many places are padding; divide by all places"),
        (mean(batches), "this is the mean of the batches' shares: add up over all batches first, and divide once"),
        (
            share(lengths.len() * longest(lengths), tokens),
            "a batch is as long as its own longest text, not that of all",
        ),
        (
            share(lengths.chunks(batch_size).map(|batch| batch_size * longest(batch)).sum(), tokens),
            "the last batch has no more rows than it has texts",
        ),
        (share(of_full, text(full)), "the last batch is missing, because it is not full"),
        (
            share(computed(|batch| batch.len() * batch.last().unwrap_or(&0)), tokens),
            "the last text of a batch need not be the longest",
        ),
        (
            share(computed(|batch| batch.len() * batch.first().unwrap_or(&0)), tokens),
            "the first text of a batch need not be the longest",
        ),
    ];
    let shown = if lengths.len() > 9 { format!("{:?} and so on", &lengths[..9]) } else { format!("{lengths:?}") };
    Figure { what: format!("padding_share({shown}, {batch_size})"), got, expected, mistakes }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_mistakes_give_the_same_share() {
        let (lengths, batch_size) = cases().swap_remove(7);
        let Figure { expected, mistakes, .. } = figure(&lengths, batch_size, 0.0);
        let mut values: Vec<f64> = mistakes.iter().map(|(value, _)| *value).chain([expected]).collect();
        values.sort_by(f64::total_cmp);
        assert!(values.windows(2).all(|pair| !is_close(pair[0], pair[1])), "{values:?}");
    }
}

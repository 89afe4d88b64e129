//! How wide an interval must be that is made from few draws.

use std::f64::consts::FRAC_2_PI;

use quantlab::report::Estimate;

use super::LossSum;

/// A loss in nats per token as a perplexity, with both ends of its interval. A change of the loss becomes a ratio of
/// perplexities.
pub fn perplexity_of(loss: Estimate) -> Estimate {
    Estimate::new(loss.value.exp(), loss.low.exp(), loss.high.exp())
}

/// The same draws in another order: every 37th, round and round, so that the first ones come from all over the corpus.
/// Their number must not be a multiple of 37.
pub fn from_all_over(draws: &[LossSum]) -> Vec<LossSum> {
    (0..draws.len()).filter_map(|i| draws.get(i * 37 % draws.len()).copied()).collect()
}

/// How many standard errors on both sides of a mean hold 95% of Student's distribution: 2.776 for 4 degrees of freedom,
/// 1.976 for 159, and 1.960 for very many. Infinite for none, because one draw has no spread.
///
/// ```
/// use quantlab_course::student_t_95;
///
/// assert!((student_t_95(4) - 2.776).abs() < 1e-3);
/// ```
///
/// Source: Abramowitz and Stegun, 26.7.3 and 26.7.4, solved by bisection.
pub fn student_t_95(degrees_of_freedom: usize) -> f64 {
    if degrees_of_freedom == 0 {
        return f64::INFINITY;
    }
    let (mut low, mut high) = (1.9, 13.0);
    while high - low > 1e-9 {
        let middle = f64::midpoint(low, high);
        if share_within(middle, degrees_of_freedom) < 0.95 {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

/// The standard error of the mean over all tokens, with the texts as draws.
pub(super) fn standard_error(draws: &[LossSum]) -> f64 {
    let k = draws.len() as f64;
    (squares(draws) * k / (k - 1.0)).sqrt() / draws.iter().sum::<LossSum>().tokens as f64
}

/// The squares of the draws' deviations, added up.
pub(super) fn squares(draws: &[LossSum]) -> f64 {
    let mean = draws.iter().sum::<LossSum>().mean();
    draws.iter().map(|draw| (draw.nll - mean * draw.tokens as f64).powi(2)).sum()
}

/// The probability that a value of Student's distribution lies between `-t` and `t`.
fn share_within(t: f64, degrees_of_freedom: usize) -> f64 {
    let theta = (t / (degrees_of_freedom as f64).sqrt()).atan();
    let (sin, cos) = theta.sin_cos();
    let is_odd = !degrees_of_freedom.is_multiple_of(2);
    // Odd: cos + 2/3 cos^3 + (2 4)/(3 5) cos^5 + ...; even: 1 + 1/2 cos^2 + (1 3)/(2 4) cos^4 + ...
    let (mut term, mut factor) = if is_odd { (cos, 2.0) } else { (1.0, 1.0) };
    let mut sum = 0.0;
    for _ in 0..degrees_of_freedom / 2 {
        sum += term;
        term *= cos * cos * factor / (factor + 1.0);
        factor += 2.0;
    }
    if is_odd { FRAC_2_PI * (theta + sin * sum) } else { sin * sum }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn from_all_over_a_corpus_every_text_comes_once() {
        for count in [0_usize, 1, 32, 128] {
            let draws: Vec<LossSum> = (0..count).map(|tokens| LossSum { nll: 0.0, tokens }).collect();
            let mut mixed: Vec<usize> = from_all_over(&draws).iter().map(|draw| draw.tokens).collect();
            mixed.sort_unstable();
            assert_eq!(mixed, (0..count).collect::<Vec<_>>());
        }
    }

    /// The usual table, 97.5%.
    #[test]
    fn it_is_that_of_the_table() {
        let table = [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (5, 2.571), (9, 2.262), (10, 2.228), (19, 2.093)];
        for (degrees, t) in
            table.into_iter().chain([(30, 2.042), (79, 1.990), (120, 1.980), (159, 1.975), (10_000, 1.960)])
        {
            assert!((student_t_95(degrees) - t).abs() < 6e-4, "{degrees}: {}", student_t_95(degrees));
        }
        assert_eq!(student_t_95(0), f64::INFINITY);
    }
}

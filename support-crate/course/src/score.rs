//! The points of an exercise, one for each thing that a check looks at.

use std::fmt;

use super::figure::each_once;
use super::{Complaint, Verdict, proof};

/// What a point is for, and what decides about it.
pub(crate) type Point<T> = (&'static str, fn(&T) -> Verdict);

/// One thing that a check looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) what: &'static str,
    pub(super) result: Verdict,
}

/// What an answer is worth, and why. As a cell's value: the number of points as text (nbgrader reads it), a
/// card as HTML. Only checks can make one: whoever can gives points.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Score {
    pub(super) exercise: &'static str,
    pub(super) hints: [&'static str; 3],
    pub(super) findings: Vec<Finding>,
}

impl Score {
    /// Nothing looked at yet. The hints go from a question to a pointer close to the answer.
    pub(crate) fn new(exercise: &'static str, hints: [&'static str; 3]) -> Self {
        Self { exercise, hints, findings: Vec::new() }
    }

    /// One point: given if `result` is `Ok`. `what` says what is right then.
    pub(crate) fn point(mut self, what: &'static str, result: Verdict) -> Self {
        self.findings.push(Finding { what, result });
        self
    }

    /// One point for something about an answer that several points are about.
    pub(crate) fn about<T>(
        self,
        answer: &Result<T, Complaint>,
        what: &'static str,
        look: impl FnOnce(&T) -> Verdict,
    ) -> Self {
        let result = answer.as_ref().map_err(Complaint::clone).and_then(look);
        self.point(what, result)
    }

    /// Points for what has to hold of every trial.
    pub(crate) fn each<T>(self, trials: &Result<Vec<T>, Complaint>, points: &[Point<T>]) -> Self {
        points
            .iter()
            .fold(self, |score, &(what, look)| score.about(trials, what, |trials| trials.iter().try_for_each(look)))
    }

    /// Points that were given.
    pub fn points(&self) -> usize {
        self.findings.iter().filter(|finding| finding.result.is_ok()).count()
    }

    /// Points that can be had.
    pub fn max_points(&self) -> usize {
        self.findings.len()
    }

    /// Whether the answer is still `todo!()`.
    pub fn is_not_yet(&self) -> bool {
        self.findings.iter().any(|finding| finding.result == Err(Complaint::NotYet))
    }

    /// What was wrong, each thing once.
    pub fn complaints(&self) -> Vec<&Complaint> {
        each_once(self.findings.iter().filter_map(|finding| finding.result.as_ref().err()))
    }

    /// Shows the score as a notebook cell's value: the number of points, behind its proof where a grader wants one.
    pub fn evcxr_display(&self) {
        let points = self.points();
        let proof = proof::of(self.exercise, points).map_or_else(String::new, |proof| proof + " ");
        quantlab::report::show(&format!("{proof}{points}"), &self.card());
    }
}

/// The card in words: where there is no HTML.
impl fmt::Display for Score {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_not_yet() {
            return write!(f, "{}: not yet\nhint: {}", self.exercise, self.hints[0]);
        }
        write!(f, "{}: {} of {} points", self.exercise, self.points(), self.max_points())?;
        for Finding { what, result } in &self.findings {
            match result {
                Ok(()) => write!(f, "\n  + {what}")?,
                Err(complaint) => write!(f, "\n  - {what}: {complaint}")?,
            }
        }
        if self.points() < self.max_points() {
            write!(f, "\nhint: {}", self.hints[0])?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_counted_and_complaints_named_once() {
        let score = Score::new("f", ["a?", "b?", "c?"])
            .point("one", Ok(()))
            .point("two", wrong!("no"))
            .point("three", wrong!("no"));
        assert_eq!((score.points(), score.max_points(), score.complaints().len()), (1, 3, 1));
        assert_eq!(score.to_string(), "f: 1 of 3 points\n  + one\n  - two: no\n  - three: no\nhint: a?");
    }

    #[test]
    fn an_unfinished_answer_gets_the_first_hint_and_no_list_of_faults() {
        let answer: Result<u8, Complaint> = Err(Complaint::NotYet);
        let score = Score::new("f", ["a?", "b?", "c?"]).about(&answer, "one", |_| Ok(()));
        assert!(score.is_not_yet());
        assert_eq!(score.to_string(), "f: not yet\nhint: a?");
    }
}

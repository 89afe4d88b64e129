//! What an answer makes of something that goes wrong.

use super::probe::{Costs, Machine};
use super::{Complaint, Verdict};

/// The message of the error that an answer returned, as it must; if it returned a value, `message` says what is wrong
/// with that.
pub(crate) fn error_of<T, M: Into<String>>(
    got: Result<T, Complaint>,
    message: impl FnOnce(T) -> M,
) -> Result<String, Complaint> {
    match got {
        Err(Complaint::Failed(error)) => Ok(error),
        Err(complaint) => Err(complaint),
        Ok(value) => Err(Complaint::wrong(message(value))),
    }
}

/// Checks that an answer returned an error, as it must; if it returned a value, `message` says what is wrong with that.
pub(crate) fn must_fail<T, M: Into<String>>(got: Result<T, Complaint>, message: impl FnOnce(T) -> M) -> Verdict {
    error_of(got, message).map(drop)
}

/// Checks that an answer returned no error where nothing fails; if it did, `message` says what is wrong with that.
pub(crate) fn must_succeed<T>(
    got: Result<T, Complaint>,
    message: impl FnOnce(String) -> String,
) -> Result<T, Complaint> {
    got.map_err(|complaint| match complaint {
        Complaint::Failed(error) => Complaint::Wrong(message(error)),
        other => other,
    })
}

/// Lets these calls of models fail, each on a machine of its own: the answer must return the error. If it returned a
/// value, `message` says what is wrong with that.
pub(crate) fn passes_failures_on<T, M: Into<String>>(
    costs: Costs,
    calls: impl IntoIterator<Item = usize>,
    answer: impl Fn(&Machine) -> Result<T, Complaint>,
    message: impl Fn(T) -> M,
) -> Verdict {
    calls.into_iter().try_for_each(|call| {
        let machine = Machine::failing_at(costs, call);
        let got = answer(&machine);
        if machine.has_failed() { must_fail(got, &message) } else { Ok(()) }
    })
}

/// The complaint about an answer that took a `failure` for a success: either one that an `Err` told it of, or (if it
/// was not `told`) one that it has to notice.
pub(crate) fn taken_for_success(failure: &str, told: bool, returned: &str) -> String {
    let what = if told { "pass errors on with `?`" } else { "return an `Err`" };
    format!("{failure}, but you returned {returned} as if all was well: {what}")
}

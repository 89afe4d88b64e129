//! Calling a learner's code: it may be unfinished, fail, or panic.

use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use quantlab::error::{Error, Result};
use quantlab::report::harmless;

/// Why an answer did not give what was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Complaint {
    /// It is still `todo!()`.
    NotYet,
    /// It panicked, with this message.
    Panicked(String),
    /// It returned this error.
    Failed(String),
    /// It gave something, but not the right thing, for this reason.
    Wrong(String),
}

/// What a check says about one fact.
pub(crate) type Verdict = Result<(), Complaint>;

impl Complaint {
    /// What was wrong, in words that say what to look at.
    pub fn wrong(message: impl Into<String>) -> Self {
        Self::Wrong(message.into())
    }

    /// A check of one fact: what is wrong unless it `holds`.
    pub(crate) fn unless<M: Into<String>>(holds: bool, message: impl FnOnce() -> M) -> Result<(), Self> {
        if holds { Ok(()) } else { Err(Self::wrong(message())) }
    }
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotYet => f.write_str("not yet: it is still todo!()"),
            Self::Panicked(message) => write!(f, "it panicked: {message}"),
            Self::Failed(message) => write!(f, "it returned an error: {message}"),
            Self::Wrong(message) => f.write_str(message),
        }
    }
}

/// For `?` inside a check on the library's own results, since it was the answer that led there.
impl From<Error> for Complaint {
    fn from(error: Error) -> Self {
        Self::Failed(error.to_string())
    }
}

/// Calls a learner's code and reports the outcome. Nothing is printed, whatever happens.
///
/// # Errors
/// It is unfinished, panicked, or returned an error.
pub fn ask<T>(work: impl FnOnce() -> Result<T>) -> Result<T, Complaint> {
    quietly(work)?.map_err(Complaint::from)
}

/// What an answer makes of something that it changes in place.
///
/// # Errors
/// As [`ask`].
pub(crate) fn changed<T>(mut given: T, yours: impl FnOnce(&mut T)) -> Result<T, Complaint> {
    ask(|| {
        yours(&mut given);
        Ok(())
    })?;
    Ok(given)
}

/// For cells that use an answer: its value, or else an empty one and a line that says why. The cells below
/// then still run, so that one exercise that is not done yet does not stop the others.
///
/// ```
/// use quantlab_course::attempt;
///
/// let unfinished: Vec<f64> = attempt(|| todo!());
/// assert!(unfinished.is_empty());
/// assert_eq!(attempt(|| Ok(vec![1.5])), [1.5]);
/// ```
pub fn attempt<T: Default>(work: impl FnOnce() -> Result<T>) -> T {
    ask(work).unwrap_or_else(|complaint| {
        match complaint {
            Complaint::NotYet => println!("Not yet: this cell needs an exercise that is still todo!()."),
            Complaint::Failed(message) => println!("Nothing to show yet: {}", harmless(&message)),
            other => println!("Nothing to show yet: {}", harmless(&other.to_string())),
        }
        T::default()
    })
}

/// Like [`attempt`], for types without an empty value: while there is no answer, `ours` stands in for it.
///
/// # Errors
/// Those of `ours`.
pub fn attempt_or<T>(yours: impl FnOnce() -> Result<T>, ours: impl FnOnce() -> Result<T>) -> Result<T> {
    ask(yours).or_else(|complaint| {
        match complaint {
            Complaint::NotYet => {
                println!("Not yet: your function is still todo!(); the library's own stands in for it.")
            }
            other => {
                println!("The library's own stands in for your function, because {}", harmless(&other.to_string()))
            }
        }
        ours()
    })
}

thread_local! {
    static PANIC: Cell<Option<String>> = const { Cell::new(None) };
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work`; a panic becomes a complaint and is not printed: whatever a cell writes to standard error
/// counts as a failure of the cell.
pub(crate) fn quietly<T>(work: impl FnOnce() -> T) -> Result<T, Complaint> {
    silence_panics();
    let before = QUIET.replace(true);
    let result = catch_unwind(AssertUnwindSafe(work));
    QUIET.set(before);
    result.map_err(|payload| {
        let message = PANIC.take().unwrap_or_else(|| payload_text(&*payload));
        // The text that the standard library gives to `todo!()`.
        if message.starts_with("not yet implemented") { Complaint::NotYet } else { Complaint::Panicked(message) }
    })
}

/// Puts a hook in front of the one that prints, once; it acts on threads that asked for it.
fn silence_panics() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let printing = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if QUIET.get() {
                // Without its place: a line of the library, or of a file that the kernel made up around the cell.
                PANIC.set(Some(payload_text(info.payload())));
            } else {
                printing(info);
            }
        }));
    });
}

fn payload_text(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_end_is_told_apart() {
        assert_eq!(ask(|| Ok(3)), Ok(3));
        assert_eq!(ask(|| -> Result<()> { todo!() }), Err(Complaint::NotYet));
        assert_eq!(ask(|| -> Result<()> { todo!("the loop") }), Err(Complaint::NotYet));
        let panicked = ask(|| -> Result<u8> { Ok([1_u8, 2][std::hint::black_box(7)]) }).unwrap_err();
        assert!(matches!(&panicked, Complaint::Panicked(text) if text.contains("index out of bounds")), "{panicked}");
        let failed = ask(|| -> Result<()> { Err(Error::input("no prompt").hint("give one")) }).unwrap_err();
        assert_eq!(failed.to_string(), "it returned an error: no prompt; hint: give one");
    }

    fn unfinished() -> String {
        todo!()
    }

    #[test]
    fn a_panic_inside_an_ask_inside_an_ask_stays_quiet() {
        let nested = ask(|| {
            assert_eq!(ask(|| -> Result<()> { todo!() }), Err(Complaint::NotYet));
            Err::<(), _>(Error::input(unfinished()))
        });
        assert_eq!(nested, Err(Complaint::NotYet));
        assert!(!QUIET.get());
    }
}

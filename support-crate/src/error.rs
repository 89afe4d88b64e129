//! One error type for the whole library: what was wrong, and what to try.
//!
//! A notebook shows an error in two ways: `{}` when a cell prints it, and `{:?}` when a `?` carries it
//! to the cell's end. Both read as sentences here.

use std::error::Error as StdError;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::output::harmless;

/// What went wrong, in words, with a hint on what to try.
///
/// Its words may be those of a model's files, and are [harmless](crate::report::harmless) to whoever shows them.
///
/// ```
/// use quantlab::error::Error;
///
/// let error = Error::input("the prompt is empty").hint("give at least one word");
/// assert_eq!(error.to_string(), "the prompt is empty; hint: give at least one word");
/// ```
#[derive(Clone, thiserror::Error)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    hint: Option<String>,
    #[source]
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

/// What sort of thing an [`Error`] is about, for code that wants to react to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An argument was not acceptable: an empty prompt, an unknown precision.
    Input,
    /// A model could not be found or fetched.
    Source,
    /// A file was read, but what it holds is not what it should hold.
    Format,
    /// A numeric library, the operating system or a device reported a failure.
    System,
    /// Nothing was wrong: the cell was interrupted, or whoever ran the notebook pressed Ctrl-C.
    Interrupted,
}

/// The library's result type.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An argument was not acceptable.
    pub fn input(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Input, message)
    }

    /// A model could not be found or fetched.
    pub fn source(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Source, message)
    }

    /// A file does not hold what it should hold.
    pub fn format(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Format, message)
    }

    /// A library, the operating system or a device failed.
    pub fn system(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::System, message)
    }

    /// The error that ends a cell because somebody asked for it.
    pub(crate) fn interrupted() -> Self {
        Self::new(ErrorKind::Interrupted, "interrupted")
            .hint("variables from earlier cells are still there; change what takes too long and run the cell again")
    }

    fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let message: String = message.into();
        Self { kind, message: harmless(&message), hint: None, source: None }
    }

    fn caused(kind: ErrorKind, message: &str, cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self { kind, message: harmless(message), hint: None, source: Some(Arc::from(cause.into())) }
    }

    /// Says what to try. The last hint given wins: the caller knows more than the callee.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        let hint: String = hint.into();
        self.hint = Some(harmless(&hint));
        self
    }

    /// Makes this an error of the file rather than of the caller, where it is the file that says it.
    pub(crate) fn in_file(self) -> Self {
        Self { kind: ErrorKind::Format, ..self }
    }

    /// Puts what was being done in front of the message: `context: message`.
    #[must_use]
    pub fn context(mut self, context: impl fmt::Display) -> Self {
        self.message = harmless(&format!("{context}: {}", self.message));
        self
    }

    /// What sort of error this is.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// What was wrong, without the hint.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What to try, if anything is known to help.
    pub fn hint_text(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "; hint: {hint}"),
            None => Ok(()),
        }
    }
}

/// The notebook kernel prints an error that reaches a cell's end with `{:?}`, so this is for reading too.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "\n  hint: {hint}"),
            None => Ok(()),
        }
    }
}

/// Adds context to the error of a result, whatever type it has.
pub(crate) trait Context<T> {
    /// Puts what was being done in front of the error's message.
    fn context<C: fmt::Display>(self, context: impl FnOnce() -> C) -> Result<T>;
}

impl<T, E: Into<Error>> Context<T> for std::result::Result<T, E> {
    fn context<C: fmt::Display>(self, context: impl FnOnce() -> C) -> Result<T> {
        self.map_err(|error| error.into().context(context()))
    }
}

/// Runs a library that panics where it should report. What it was given may be half changed afterwards.
///
/// # Errors
/// It panics.
pub(crate) fn guarded<T>(library: &str, work: impl FnOnce() -> T) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|_| Error::format(format!("the {library} library panicked")))
}

/// Conversions for `?`: the message is the cause's own, which stays reachable through `source()`.
macro_rules! from_causes {
    ($($cause:ty => $kind:ident),* $(,)?) => {$(
        impl From<$cause> for Error {
            fn from(cause: $cause) -> Self {
                Self::caused(ErrorKind::$kind, &cause.to_string(), cause)
            }
        }
    )*};
}

from_causes! {
    std::io::Error => System,
    std::fmt::Error => System,
    std::num::ParseIntError => Input,
    std::num::ParseFloatError => Input,
    std::string::FromUtf8Error => Format,
    tch::TchError => System,
    safetensors::SafeTensorError => Format,
    serde_json::Error => Format,
    polars::error::PolarsError => System,
}

/// candle adds a backtrace after the first line when backtraces are on; a reader needs the first line.
impl From<candle_core::Error> for Error {
    fn from(cause: candle_core::Error) -> Self {
        let text = cause.to_string();
        Self::caused(ErrorKind::System, text.lines().next().unwrap_or_default(), cause)
    }
}

/// The error type of `tokenizers`, and of anything else that boxes its errors.
impl From<Box<dyn StdError + Send + Sync>> for Error {
    fn from(cause: Box<dyn StdError + Send + Sync>) -> Self {
        Self::caused(ErrorKind::System, &cause.to_string(), cause)
    }
}

/// Lets a cell end a helper with `Err("what was wrong")?`.
impl From<&str> for Error {
    fn from(message: &str) -> Self {
        Self::input(message)
    }
}

/// Lets a cell end a helper with `Err(format!("what was wrong"))?`.
impl From<String> for Error {
    fn from(message: String) -> Self {
        Self::input(message)
    }
}

impl From<std::convert::Infallible> for Error {
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_is_one_line_and_debug_reads_well() {
        let error = Error::format("config.json: `n_embd` is missing").hint("is this a GPT-2 model?");
        assert_eq!(error.to_string(), "config.json: `n_embd` is missing; hint: is this a GPT-2 model?");
        assert_eq!(format!("{error:?}"), "config.json: `n_embd` is missing\n  hint: is this a GPT-2 model?");
    }

    #[test]
    fn context_comes_first_and_the_cause_stays_reachable() {
        let io = std::io::Error::new(std::io::ErrorKind::NotFound, "no such file");
        let error = Err::<(), _>(io).context(|| "reading x").unwrap_err();
        assert_eq!(error.message(), "reading x: no such file");
        assert!(StdError::source(&error).is_some());
    }

    /// A name or a value of a file may be made to look like a command of the notebook kernel's.
    #[test]
    fn what_a_file_says_is_no_command() {
        let marker = "\nEVCXR_BEGIN_CONTENT text/html\n\u{1b}[2J";
        let error = Error::format(format!("tensor `{marker}`")).hint(marker).context(marker);
        let io = Error::from(std::io::Error::other(marker));
        for text in [error.to_string(), format!("{error:?}"), error.message().to_owned(), io.to_string()] {
            assert!(!text.contains("EVCXR_") && !text.contains('\u{1b}'), "{text:?}");
            assert!(text.contains("BEGIN_CONTENT text/html\n"), "{text:?}");
        }
    }

    #[test]
    fn errors_cross_threads() {
        fn check<T: Send + Sync + 'static>() {}
        check::<Error>();
    }
}

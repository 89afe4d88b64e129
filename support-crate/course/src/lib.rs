//! What the lessons need beyond the library: checks that score an answer, with messages and hints, and the tables and
//! plots that a lesson draws. A lesson's first cell says `use quantlab_course::lesson_1::*;`.
//!
//! A check calls the learner's function on cases whose answers are known: with a clock that only the probes
//! move ([`probe`]), a hub whose models are known, a text whose loss is known. It looks at what the function
//! does, never at how it is spelled. Its value is a [`Score`]: as text the number of points, which is what
//! nbgrader reads; as HTML a card with what passed, what did not and why, and hints to open one by one.
//!
//! An unfinished answer (`todo!()`) is expected here: checks say "not yet", and cells that use the answer go through
//! [`attempt`].

// A check shows the signature of the function that it takes.
#![allow(clippy::type_complexity)]

/// An error that says what is wrong with an answer, formatted as by `format!`.
macro_rules! wrong {
    ($($text:tt)*) => {
        Err($crate::Complaint::wrong(format!($($text)*)))
    };
}

mod card;
mod cases;
mod claims;
mod evidence;
mod failures;
mod figure;
mod formats;
mod layer;
pub mod lesson_0;
pub mod lesson_1;
pub mod lesson_2;
pub mod lesson_3;
pub mod lesson_4;
pub mod lesson_5;
pub mod lesson_6;
pub mod lesson_7;
pub mod lesson_8;
mod machine_card;
mod outcome;
mod prediction;
pub mod probe;
mod proof;
mod saved;
mod score;
mod tables;
mod trial;

pub use claims::{Claims, claim};
pub use lesson_0::*;
pub use lesson_1::*;
pub use lesson_2::*;
pub use lesson_3::*;
pub use lesson_4::*;
pub use lesson_5::*;
pub use lesson_6::*;
pub use lesson_7::*;
pub use lesson_8::*;
pub use machine_card::MachineCard;
pub use outcome::{Complaint, ask, attempt, attempt_or};
pub(crate) use outcome::{Verdict, changed};
pub use prediction::Prediction;
pub use proof::tell_key;
pub use saved::SavedAs;
pub(crate) use score::Point;
pub use score::Score;

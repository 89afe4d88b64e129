//! A machine in a test tube: a clock that only moves when work is done, a model whose logits and whose costs
//! are known, a tokenizer that says when it is used. What an answer measured is then a sum whose parts can be
//! told apart.

mod hub;
mod machine;
mod model;
mod timed;

pub use hub::{ProbeHub, Stock};
pub use machine::{Costs, Event, Machine, Pass, ProbeClock};
pub use model::{ProbeModel, one_of};
pub use timed::{Stretch, Timed};

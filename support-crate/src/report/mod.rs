//! From numbers to the page: tables and plots for notebook cells.
//!
//! | type | shows |
//! | --- | --- |
//! | [`Table`] | measurements by row and column; HTML, text and CSV |
//! | [`LinePlot`] | how something changes along a length, a size, a step |
//! | [`BarPlot`] | how categories compare |
//! | [`HeatMap`] | where numbers of rows and columns are large |
//! | [`StackedBar`] | what a whole is made of |
//! | [`roofline`] | which of the machine's limits some work is near |
//! | [`TradeOff`] | what each choice costs and gives, and what others dominate |
//! | [`RugPlot`] | which numbers a format has, and the decision boundaries between them |
//! | [`Timeline`] | when the tokens come out: prefill and decode on a time axis |
//! | [`ServingTimeline`] | when requests wait, are read and get their tokens |
//! | [`Summary`] | findings in words |
//!
//! Everything takes numbers or [`Estimate`]s (a value with its interval), refuses what it cannot show with
//! an error that says so, and shows itself as the value of a cell's last line.

mod display;
mod estimate;
mod items;
mod measured;
mod number;
mod plot;
mod quality;
mod serving;
mod summary;
mod table;

pub use crate::output::harmless;
pub use display::{escape_html, show, show_blocks, show_together, svg_data_uri};
pub use estimate::{Estimate, Number, Point};
pub use number::{duration, fixed, significant, whole};
pub use plot::{BarPlot, HeatMap, LinePlot, RugPlot, ServingTimeline, StackedBar, Timeline, TradeOff, roofline};
pub use summary::Summary;
pub use table::{Cell, Column, IntoRow, Table};

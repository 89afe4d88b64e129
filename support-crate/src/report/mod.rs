//! From numbers to the page: tables and plots for notebook cells.
//!
//! | type | shows |
//! | --- | --- |
//! | [`Table`] | measurements by row and column; HTML, text and CSV |
//! | [`LinePlot`] | how something changes along a length, a size, a step |
//! | [`BarPlot`] | how categories compare |
//! | [`StackedBar`] | what a whole is made of |
//! | [`TradeOff`] | what each choice costs and gives, with the Pareto front |
//! | [`RugPlot`] | which numbers a format has, and where rounding turns |
//! | [`Timeline`] | when the tokens come out: prefill and decode on a time axis |
//! | [`Summary`] | findings in words |
//!
//! Everything takes numbers or [`Estimate`]s (a value with its interval), refuses what it cannot show with
//! an error that says so, and shows itself as the value of a cell's last line.

mod axis;
mod bar;
mod cell;
mod chart;
mod display;
mod draw;
mod estimate;
mod label;
mod line;
mod measured;
mod number;
mod png;
mod quality;
mod rug;
mod scene;
mod stacked;
mod style;
mod summary;
mod table;
mod table_frame;
mod table_text;
mod text;
mod timeline;
mod trade_off;

pub use bar::BarPlot;
pub use cell::{Cell, IntoRow};
pub use display::{escape_html, show, show_blocks};
pub use estimate::{Estimate, Number, Point};
pub use line::LinePlot;
pub use number::{duration, fixed, significant, whole};
pub use rug::RugPlot;
pub use stacked::StackedBar;
pub use summary::Summary;
pub use table::{Column, Table};
pub use timeline::Timeline;
pub use trade_off::TradeOff;

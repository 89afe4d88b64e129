//! Plots. What they have in common, from axes to pixels, is [`drawing`].

mod bar;
pub(super) mod drawing;
mod heat_map;
mod line;
mod roofline;
mod rug;
mod serving;
mod stacked;
mod timeline;
mod trade_off;

pub use bar::BarPlot;
pub use heat_map::HeatMap;
pub use line::LinePlot;
pub use roofline::roofline;
pub use rug::RugPlot;
pub use serving::ServingTimeline;
pub use stacked::StackedBar;
pub use timeline::Timeline;
pub use trade_off::TradeOff;

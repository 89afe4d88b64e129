//! Pictures and tables that are saved on the way to being shown.

use std::fs;
use std::path::Path;

use quantlab::report::{BarPlot, HeatMap, LinePlot, RugPlot, StackedBar, Table, TradeOff};

use crate::attempt;

/// So that a cell saves what it shows in one line.
///
/// ```no_run
/// use quantlab::report::BarPlot;
/// use quantlab_course::SavedAs;
///
/// let plot = BarPlot::new("Decode").bars([("float32", 61.7), ("bfloat16", 114.9)])?.saved_as("results/decode.png");
/// # Ok::<(), quantlab::error::Error>(())
/// ```
pub trait SavedAs: Sized {
    /// Saves a picture as PNG, or a table as CSV, in a folder that need not be there yet, and gives it back. Where that is
    /// not possible, because there is nothing to show yet, it prints why.
    fn saved_as(self, path: &str) -> Self;
}

macro_rules! saved_as {
    ($save:ident: $($shown:ty),*) => {
        $(impl SavedAs for $shown {
            fn saved_as(self, path: &str) -> Self {
                attempt(|| {
                    Path::new(path).parent().map_or(Ok(()), fs::create_dir_all)?;
                    self.$save(path)
                });
                self
            }
        })*
    };
}

saved_as!(save_png: BarPlot, HeatMap, LinePlot, RugPlot, StackedBar, TradeOff);
saved_as!(write_csv: Table);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_saved_and_what_is_empty_is_shown_all_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let table = Table::new("t").column("a", "", [1.0, 2.0]).saved_as(&at("new/t.csv"));
        assert_eq!((table.rows(), std::fs::read_to_string(at("new/t.csv")).unwrap().lines().count()), (2, 3));
        let plot = BarPlot::new("b").bars([("x", 1.0)]).unwrap().saved_as(&at("b.png"));
        assert!(plot.table().rows() == 1 && std::fs::read(at("b.png")).unwrap().starts_with(b"\x89PNG"));
        LinePlot::new("nothing yet").saved_as(&at("none.png"));
        assert!(!std::path::Path::new(&at("none.png")).exists());
    }
}

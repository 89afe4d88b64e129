// What answers use of the notebook's first cell.
pub use std::collections::HashSet;

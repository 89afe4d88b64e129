//! The tables of families are those in the documentation.

use super::table::{FAMILIES, Family, Output, Window};
use crate::model::Architecture;

#[test]
fn the_documentation_has_these_families() {
    let documented = std::fs::read_to_string("../docs/families.md").unwrap();
    let rows: Vec<&str> = documented.lines().filter(|line| line.starts_with("| `")).collect();
    let (own, candle) = rows.split_at(Architecture::DECODERS.len());
    for (row, architecture) in own.iter().zip(Architecture::DECODERS) {
        assert!(row.starts_with(&format!("| `{architecture}` |")), "{row} instead of {architecture}");
    }
    let expected: Vec<String> = FAMILIES.iter().map(row).collect();
    assert_eq!(candle, expected, "what docs/families.md should say:\n{}", expected.join("\n"));
}

fn row(family: &Family) -> String {
    let logits = match family.output {
        Output::LastLogits => "token by token",
        Output::HiddenStates => "at once",
    };
    let window = match family.window {
        Window::Never => "refused",
        Window::LimitsContext => "if it hides nothing",
        Window::LimitsPrefill => "exact; beyond it token by token",
    };
    let half = if family.exact_positions_in_half { "yes" } else { "refused" };
    let fixed: Vec<String> = family.fixed.iter().map(|(key, value)| format!("`{key}` {value}")).collect();
    format!("| `{}` | {logits} | {window} | {half} | {} |", family.architecture, fixed.join(", "))
}

#[test]
fn names_are_sorted_and_found() {
    let all = FAMILIES.iter().map(|family| family.architecture);
    assert!(all.clone().is_sorted_by_key(Architecture::name));
    assert!(all.clone().all(|architecture| super::table::find(architecture.name()).is_some()));
    assert!(all.filter(|architecture| !Architecture::DECODERS.contains(architecture)).eq(Architecture::ONLY_CANDLE));
}

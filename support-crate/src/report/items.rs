//! How the scores of items show at the end of a cell and as text.

use std::fmt;

use super::number::significant;
use super::table::Table;
use crate::measure::{ItemComparison, ItemScore, ItemScores, right};

impl fmt::Display for ItemScores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [accuracy, raw] = [self.accuracy(), self.raw_accuracy()].map(|share| share * 100.0);
        let count = self.scores.len();
        write!(f, "{accuracy} % of {count} items right by likelihood per byte, {raw} % by whole choices | {}", self.run)
    }
}

impl fmt::Display for ItemComparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lost, won, p, margin_change, .. } = self;
        let (difference, p) = (self.difference * 100.0, significant(*p, 2));
        write!(
            f,
            "{lost} items lost, {won} won: {difference} percentage points, p = {p}; margin {margin_change} nats/byte"
        )
    }
}

impl ItemScores {
    /// How many items of each kind the model gets right, beside chance.
    pub fn table(&self) -> Table {
        let all = ("all", self.scores.iter().collect());
        let kinds: Vec<(&str, Vec<&ItemScore>)> = self.by_kind().into_iter().chain([all]).collect();
        let percent = |of: fn(&ItemScore) -> f64| {
            let mean = |scores: &[&ItemScore]| scores.iter().map(|score| of(score)).sum::<f64>() / scores.len() as f64;
            kinds.iter().map(|(_, scores)| 100.0 * mean(scores)).collect::<Vec<f64>>()
        };
        let (per_byte, whole, chance) = ("right, per byte", "right, whole choices", "by chance");
        let table = Table::new("Is the right choice the most likely one?")
            .column("kind", "", kinds.iter().map(|(kind, _)| *kind))
            .column("items", "", kinds.iter().map(|(_, scores)| scores.len()))
            .column(per_byte, "%", percent(|score| right(score.margin())))
            .column(whole, "%", percent(|score| right(score.raw_margin())))
            .column(chance, "%", percent(|score| 1.0 / score.item.choices.len() as f64));
        let table = [per_byte, whole, chance].into_iter().fold(table, |table, column| table.decimals(column, 1));
        table
            .note(format!("all: {} %, the 95% interval, as if items were drawn at random", self.accuracy() * 100.0))
            .note(&self.run)
    }
}

impl ItemComparison {
    /// The comparison as a table of one row per quantity.
    pub fn table(&self) -> Table {
        Table::new("The same items, asked of two models")
            .headings([("quantity", ""), ("value", ""), ("unit", "")])
            .row(("right by the base, wrong by the other", self.lost.to_string(), "items lost"))
            .row(("wrong by the base, right by the other", self.won.to_string(), "items won"))
            .row(("difference of accuracies", (self.difference * 100.0).to_string(), "percentage points"))
            .row(("sign test, two-sided", significant(self.p, 2), "p"))
            .row(("change of the margin", self.margin_change.to_string(), "nats/byte"))
            .note("\u{b1}: 95% interval, paired, as if items were drawn at random")
    }
}

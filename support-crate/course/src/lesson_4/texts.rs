//! How far the texts of an experiment are from the baseline's, by what can be counted.

use quantlab::report::Table;

use super::{ExperimentResult, ExperimentRow};
use crate::ask;

const TITLE: &str = "The texts beside the baseline's";

/// A text repeats itself more than the baseline's if its share of repeated runs is this much larger.
const MORE: f64 = 0.1;

/// How the texts of each configuration compare with those of the first one, prompt by prompt: how many are the same, how
/// many words are the same before the first that differs (blank for the first one itself), what share of each text is
/// repetition (0 to 1, by the learner's function), and how many texts repeat themselves clearly more. A configuration that
/// failed has no texts. Without a function, nothing is judged.
pub fn texts_table(rows: &[ExperimentRow], repetition: fn(&str) -> f64) -> Table {
    let none = |complaint| Table::new(TITLE).note(format!("not judged yet: {complaint}"));
    ask(|| Ok(judged(rows, repetition))).unwrap_or_else(none)
}

fn judged(rows: &[ExperimentRow], repetition: fn(&str) -> f64) -> Table {
    let texts = |row: &ExperimentRow| row.outcome.as_ref().map_or(Vec::new(), |result| result.outputs.clone());
    let base: Vec<String> = rows.first().map(texts).unwrap_or_default();
    let table = Table::new(TITLE).headings([
        ("configuration", ""),
        ("texts that differ", ""),
        ("words before the first difference", ""),
        ("repetition, each text", "%"),
        ("texts that repeat more", ""),
    ]);
    let listed = |numbers: Vec<String>| numbers.join(", ");
    let table = rows.iter().enumerate().fold(table, |table, (number, row)| match &row.outcome {
        Ok(ExperimentResult { outputs, .. }) => {
            let pairs = || base.iter().zip(outputs);
            let more = |(base, text): &(&String, &String)| repetition(text) >= repetition(base) + MORE - 1e-9;
            table.row((
                &row.name,
                pairs().filter(|(base, text)| base != text).count().to_string(),
                match number {
                    0 => String::new(),
                    _ => listed(pairs().map(|(base, text)| words_in_common(base, text).to_string()).collect()),
                },
                listed(outputs.iter().map(|text| format!("{:.0}", 100.0 * repetition(text))).collect()),
                pairs().filter(more).count().to_string(),
            ))
        }
        Err(_) => table.row((&row.name, "Error", "", "", "")),
    });
    table.note(format!(
        "repetition: runs of four words that stood in the text before | more: at least {:.0} percentage points above \
         the baseline's text",
        100.0 * MORE
    ))
}

/// How many words two texts begin with alike.
fn words_in_common(a: &str, b: &str) -> usize {
    a.split_whitespace().zip(b.split_whitespace()).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use quantlab::error::Error;

    use super::*;

    #[test]
    fn texts_are_judged_by_what_can_be_counted() {
        let row = |name: &str, texts: [&str; 2]| {
            let outputs = texts.map(str::to_owned).to_vec();
            let result = ExperimentResult { memory_mib: 1.0, avg_latency_s: 1.0, outputs };
            ExperimentRow { name: name.to_owned(), outcome: Ok(result) }
        };
        let failed = ExperimentRow { name: "C".to_owned(), outcome: Err(Error::input("no")) };
        let rows = [row("A", ["a b c", "x"]), row("B", ["a b d d", "x"]), failed];
        let csv = texts_table(&rows, |text| if text.ends_with("d d") { 0.5 } else { 0.0 }).to_csv_string().unwrap();
        let lines: Vec<&str> = csv.lines().collect();
        assert_eq!(lines[1..], ["A,0,\"\",\"0, 0\",0", "B,1,\"2, 1\",\"50, 0\",1", "C,Error,\"\",\"\",\"\""]);
        assert_eq!(texts_table(&[], |_| 0.0).rows(), 0);
        assert!(texts_table(&rows, |_| todo!()).to_text().contains("not judged yet"));
    }
}

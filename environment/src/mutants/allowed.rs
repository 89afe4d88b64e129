//! The mutants that need not be caught, and why.

use anyhow::{Context, Result, bail, ensure};

use super::mutant::{Change, Mutant};

/// A mutant that means the same as the answer, or is as good.
#[derive(Debug, PartialEq, Eq)]
pub struct Allowed {
    exercise: String,
    change: Change,
    number: usize,
}

impl Allowed {
    /// Reads a list, whose entries look as [`entry`] writes them, with empty lines between. Lines that begin with
    /// `#` are comments.
    ///
    /// # Errors
    /// A line that is not part of an entry, or an entry without a reason.
    pub fn read(text: &str) -> Result<Vec<Self>> {
        let text: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let entries = text.split(|line| line.trim().is_empty()).filter(|lines| !lines.is_empty());
        entries.map(|lines| Self::parse(lines).with_context(|| lines.join("\n"))).collect()
    }

    fn parse(lines: &[&str]) -> Result<Self> {
        let (mut change, mut reason) = (Change::default(), "");
        let (title, lines) = lines.split_first().context("an entry is empty")?;
        let mut words = title.split_whitespace();
        let exercise = words.next().context("an entry names no exercise")?.to_owned();
        let number = words.next().map_or(Ok(1), str::parse).context("no number follows the exercise")?;
        for line in lines {
            match line.trim().split_once(' ') {
                Some(("-", old)) => change.old.push(old.trim().to_owned()),
                Some(("+", new)) => change.new.push(new.trim().to_owned()),
                Some(("=", why)) => reason = why.trim(),
                _ => bail!("a line begins with none of `- `, `+ `, `= `: {line}"),
            }
        }
        ensure!(!reason.is_empty(), "an entry gives no reason");
        Ok(Self { exercise, change, number })
    }

    /// Whether this entry is about the mutant.
    pub fn is(&self, exercise: &str, mutant: &Mutant) -> bool {
        self.exercise == exercise && self.number == mutant.number && self.change == mutant.change
    }
}

impl std::fmt::Display for Allowed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&written(&self.exercise, &self.change, self.number))
    }
}

/// A mutant as an entry of the list, without the reason.
pub fn entry(exercise: &str, mutant: &Mutant) -> String {
    written(exercise, &mutant.change, mutant.number)
}

fn written(exercise: &str, change: &Change, number: usize) -> String {
    let mut text = exercise.to_owned();
    if number > 1 {
        text.push_str(&format!(" {number}"));
    }
    let old = change.old.iter().map(|line| format!("\n- {line}"));
    text.extend(old.chain(change.new.iter().map(|line| format!("\n+ {line}"))));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_read_as_it_was_written() {
        let change = Change { old: vec!["a".to_owned(), "- b".to_owned()], new: vec!["c = d".to_owned()] };
        let mutant = Mutant { cell: String::new(), change, number: 2 };
        let text = format!("# comment\n\n{}\n= because\n\n\nother\n- x\n= why\n", entry("f", &mutant));
        let list = Allowed::read(&text).unwrap();
        assert_eq!(list.len(), 2);
        assert!(list[0].is("f", &mutant) && !list[0].is("g", &mutant) && !list[1].is("f", &mutant));
        assert!(Allowed::read("f\n- a\n+ b").is_err(), "without a reason");
        assert!(Allowed::read("f\n- a\n* b\n= c").is_err());
    }
}

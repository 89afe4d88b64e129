//! The mutants that need not be caught, and why.

use std::fmt;

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
    /// The entry for a mutant.
    pub fn of(exercise: &str, mutant: &Mutant) -> Self {
        Self { exercise: exercise.to_owned(), change: mutant.change.clone(), number: mutant.number }
    }

    /// Reads a list, whose entries look as they are displayed, each with a reason, and with empty lines between. Lines
    /// that begin with `#` are comments.
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
}

/// Without the reason.
impl fmt::Display for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.exercise)?;
        if self.number > 1 {
            write!(f, " {}", self.number)?;
        }
        self.change.old.iter().try_for_each(|line| write!(f, "\n- {line}"))?;
        self.change.new.iter().try_for_each(|line| write!(f, "\n+ {line}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_read_as_it_was_written() {
        let change = Change { old: vec!["a".to_owned(), "- b".to_owned()], new: vec!["c = d".to_owned()] };
        let mutant = Mutant { cell: String::new(), change, number: 2 };
        let entry = Allowed::of("f", &mutant);
        let text = format!("# comment\n\n{entry}\n= because\n\n\nother\n- x\n= why\n");
        let list = Allowed::read(&text).unwrap();
        assert_eq!(list.len(), 2);
        assert!(list[0] == entry && list[0] != Allowed::of("g", &mutant) && list[1] != entry);
        assert!(Allowed::read("f\n- a\n+ b").is_err(), "without a reason");
        assert!(Allowed::read("f\n- a\n* b\n= c").is_err());
    }
}

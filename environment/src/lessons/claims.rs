//! `cargo lab claims`: the sentences of a lesson that sound as if they spoke of its run, and that nothing holds to it.
//!
//! What depends on a measurement is printed from it, or stands word for word in a `claim(..)` or `.that(..)` of a code
//! cell, which fails the notebook if it does not hold. Whatever else has a number or a comparison is true of any run, for a
//! reason that is written down in `environment/claims/LESSON.txt`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use serde_json::Value;

use super::{Lesson, cells, choose, code_cells, is, joined, read_all, text_of};
use crate::checkout::Checkout;

/// How a claim that does not hold begins where a cell shows it (`quantlab_course::Claims`).
const NOT_SO: &str = "- not so here: ";
/// The same for one that was never measured.
const UNMEASURED: &str = ". not measured yet: ";

/// Words that compare or count.
const WORDS: &str = "two three four five six seven eight nine ten twelve twice half third quarter times all none only most \
     least same equal equals equally identical always never nothing every faster slower smaller larger longer shorter \
     fewer less more higher lower closer better worse largest smallest longest shortest highest \
     lowest fastest slowest best worst nearly almost hardly barely mostly rarely";

/// Sections that tell a learner what to do, not what was found.
const INSTRUCTIONS: [&str; 3] = ["### Checklist", "### When something looks wrong", "### Further"];

/// Prints what nothing holds, for one lesson or all; the exit status says whether there is any.
pub fn claims(wanted: Option<&str>) -> Result<ExitCode> {
    let checkout = Checkout::find()?;
    let all = read_all(&checkout.notebooks())?;
    let chosen = match wanted {
        Some(name) => vec![choose(&all, name)?],
        None => all.iter().collect(),
    };
    let faults = faults(&chosen, checkout.root())?;
    faults.iter().for_each(|fault| println!("{fault}"));
    println!("{} of {} lessons: {} sentences to look at", chosen.len(), all.len(), faults.len());
    Ok(if faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The same as an error.
pub fn check(lessons: &[Lesson], root: &Path) -> Result<()> {
    let faults = faults(&lessons.iter().collect::<Vec<_>>(), root)?;
    anyhow::ensure!(faults.is_empty(), "nothing holds these sentences to a run\n  {}", faults.join("\n  "));
    Ok(())
}

fn faults(lessons: &[&Lesson], root: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for lesson in lessons {
        let path = root.join("environment/claims").join(format!("{}.txt", lesson.name));
        let reasons = if path.is_file() {
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?
        } else {
            String::new()
        };
        found.extend(faults_of(&lesson.notebook, &reasons).into_iter().map(|fault| format!("{} {fault}", lesson.name)));
    }
    Ok(found)
}

/// Sentences that nothing holds, with their cells; claims of the committed run that do not hold; reasons for what is gone.
fn faults_of(notebook: &Value, reasons: &str) -> Vec<String> {
    let held = held(notebook);
    let excused: Vec<(&str, Vec<String>)> = excused(reasons);
    let claims = [not_so(notebook), unmeasured(notebook)].concat();
    let mut faults: Vec<String> = claims.into_iter().map(|claim| claim + ", in the committed run").collect();
    let mut used: BTreeMap<usize, String> = BTreeMap::new();
    for (number, cell) in cells(notebook).iter().enumerate() {
        if cell["cell_type"] != "markdown" || is_instruction(notebook, number) {
            continue;
        }
        for sentence in sentences(&text_of(cell)) {
            let words = words(&sentence);
            if !is_suspect(&words) || held.contains(&format!(" {} ", words.join(" "))) {
                continue;
            }
            let is_for = |(line, beginning): &(&str, Vec<String>)| match line.ends_with("...") {
                true => beginning.len() > 1 && words.starts_with(beginning),
                false => words == *beginning,
            };
            match excused.iter().position(is_for) {
                // One reason for several sentences would be one for the next that begins so, too.
                Some(at) if used.get(&at).is_some_and(|other| *other != sentence) => {
                    faults.push(format!(
                        "[{number}] {sentence} (what begins so has a reason, which is another sentence's)"
                    ));
                }
                Some(at) => drop(used.insert(at, sentence)),
                None => faults.push(format!("[{number}] {sentence}")),
            }
        }
    }
    let gone = excused.iter().enumerate().filter(|(at, _)| !used.contains_key(at));
    faults.extend(gone.map(|(_, (line, _))| format!("has no such sentence any more, or it needs no reason: {line}")));
    faults
}

/// The claims that a notebook's run contradicts, each with the number of its cell.
pub fn not_so(notebook: &Value) -> Vec<String> {
    shown(notebook, NOT_SO, "not so")
}

/// The claims for which a notebook's run has no numbers: all of a starter's, none of a solution's.
pub fn unmeasured(notebook: &Value) -> Vec<String> {
    shown(notebook, UNMEASURED, "not measured")
}

fn shown(notebook: &Value, mark: &str, what: &str) -> Vec<String> {
    let of_cell = |(number, cell): (usize, &Value)| -> Vec<String> {
        let shown = texts_shown(cell);
        let lines = shown.lines().filter_map(|line| line.trim().strip_prefix(mark));
        lines.map(|line| format!("[{number}] {what}: {line}")).collect()
    };
    cells(notebook).iter().enumerate().flat_map(of_cell).collect()
}

/// All that is claimed or printed, as words between spaces.
fn held(notebook: &Value) -> String {
    let mut held = String::from(" ");
    for cell in code_cells(notebook) {
        for text in claimed(&text_of(cell)).into_iter().chain([texts_shown(cell)]) {
            held.push_str(&words(&text).join(" "));
            held.push_str(" \n ");
        }
    }
    held
}

/// The strings that are given to `claim(` and `.that(`.
fn claimed(code: &str) -> Vec<String> {
    let after = |call: &'static str| code.match_indices(call).map(move |(at, _)| at + call.len());
    let literal = |at: usize| {
        let rest = code[at..].trim_start();
        let inside =
            rest.strip_prefix('"').or_else(|| rest.strip_prefix("format!(")?.trim_start().strip_prefix('"'))?;
        let (mut text, mut characters) = (String::new(), inside.chars());
        loop {
            match characters.next()? {
                '"' => return Some(text),
                // A line that goes on, or a character that has to be written so.
                '\\' => match characters.next()? {
                    '\n' => characters = characters.as_str().trim_start().chars(),
                    escaped => text.push(escaped),
                },
                other => text.push(other),
            }
        }
    };
    after("claim(").chain(after(".that(")).filter_map(literal).collect()
}

/// What a cell printed or showed as text.
fn texts_shown(cell: &Value) -> String {
    let outputs = cell["outputs"].as_array().map_or(&[][..], Vec::as_slice);
    outputs.iter().map(|output| joined(&output["text"]) + &joined(&output["data"]["text/plain"]) + "\n").collect()
}

/// Whether a cell says what to write, or what to do next.
fn is_instruction(notebook: &Value, number: usize) -> bool {
    let cells = cells(notebook);
    let text = text_of(&cells[number]);
    let next = cells[number + 1..].iter().find(|cell| cell["cell_type"] == "code");
    let before_exercise = cells.get(number + 1).is_some_and(|cell| Some(cell) == next && is(cell, "solution"));
    before_exercise && text.contains("**Your turn") || INSTRUCTIONS.iter().any(|heading| text.starts_with(heading))
}

/// The lines of a file of reasons, each with its words; a reason stands above those that it is for, after `#`.
fn excused(reasons: &str) -> Vec<(&str, Vec<String>)> {
    let lines = reasons.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| (line, words(line.trim_end_matches("...")))).collect()
}

/// The sentences of some Markdown, without code, formulas, headings, tables and references.
fn sentences(markdown: &str) -> Vec<String> {
    let mut paragraphs = vec![String::new()];
    let (mut in_code, mut in_formula) = (false, false);
    for line in markdown.lines().map(str::trim) {
        in_code ^= line.starts_with("```");
        let toggles = line.matches("$$").count();
        let is_formula = in_formula || toggles > 0;
        in_formula ^= toggles % 2 == 1;
        let is_reference = ["*Read on", "**To read", "**Read on"].iter().any(|start| line.starts_with(start));
        let is_left_out =
            in_code || is_formula || is_reference || line.starts_with(['#', '|', '`']) && !line.ends_with('.');
        let item = line.trim_start_matches(['-', '*']).trim_start_matches(|c: char| c.is_ascii_digit());
        if is_left_out
            || line.is_empty()
            || line.starts_with("<")
            || item.len() < line.len() && item.starts_with([' ', '.'])
        {
            paragraphs.push(String::new());
        }
        if !is_left_out && let Some(paragraph) = paragraphs.last_mut() {
            let item = if item.starts_with([' ', '.']) { item.trim_start_matches(['.', ' ']) } else { line };
            paragraph.push_str(&without_tags(item));
            paragraph.push(' ');
        }
    }
    paragraphs.iter().flat_map(|paragraph| split(&plain(paragraph))).filter(|text| !text.is_empty()).collect()
}

/// A paragraph without what stands between backticks or dollars, and without the addresses of links.
fn plain(paragraph: &str) -> String {
    let (mut text, mut rest) = (String::new(), paragraph);
    while let Some(at) = rest.find(['`', '$', ']']) {
        let (before, from) = rest.split_at(at);
        text.push_str(before);
        rest = &from[1..];
        let end = match from.as_bytes()[0] {
            b']' if rest.starts_with('(') => rest.find(')'),
            b']' => None,
            quote => rest.find(char::from(quote)),
        };
        rest = end.map_or(rest, |end| &rest[end + 1..]);
    }
    text + rest
}

fn without_tags(line: &str) -> String {
    let mut parts = line.split('<');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        // `a < b` is no tag.
        match part.split_once('>').filter(|_| part.starts_with(|c: char| c.is_ascii_alphabetic() || "/!".contains(c))) {
            Some((_, after)) => text.push_str(after),
            None => text.extend(["<", part]),
        }
    }
    text
}

fn split(paragraph: &str) -> Vec<String> {
    let (mut found, mut start) = (Vec::new(), 0);
    for (at, _) in paragraph.match_indices(['.', '?', '!']) {
        let rest = &paragraph[at + 1..];
        let after = rest.trim_start_matches(['*', ')', '"']);
        if after.is_empty() || after.starts_with(' ') && !after.trim_start().starts_with(char::is_lowercase) {
            found.push(paragraph[start..=at].trim().to_owned());
            start = at + 1;
        }
    }
    found.push(paragraph[start..].trim().trim_start_matches(['*', ')']).trim().to_owned());
    // A question says nothing.
    found.retain(|sentence| sentence.chars().any(char::is_alphanumeric) && !sentence.ends_with('?'));
    found
}

/// Words and numbers, in small letters.
fn words(text: &str) -> Vec<String> {
    let cut = text.split(|c: char| !(c.is_alphanumeric() || c == '.' || c == '%'));
    cut.map(|word| word.trim_matches('.').to_lowercase()).filter(|word| !word.is_empty()).collect()
}

fn is_suspect(words: &[String]) -> bool {
    words
        .iter()
        .any(|word| word.starts_with(|c: char| c.is_ascii_digit()) || WORDS.split(' ').any(|known| known == word))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn notebook(cells: &[(&str, &str, &str)]) -> Value {
        let cell = |(kind, source, shown): &(&str, &str, &str)| {
            let outputs = json!([{"output_type": "stream", "text": [shown]}]);
            json!({"cell_type": kind, "source": source, "metadata": {}, "outputs": outputs})
        };
        json!({"cells": cells.iter().map(cell).collect::<Vec<_>>()})
    }

    #[test]
    fn a_sentence_with_a_number_is_held_by_a_claim_or_an_output_or_excused() {
        let text = "# 3 headings\n\nIs 4 more? Int8 took **half** the time. It is small.\n\n- The text was the\n  same in `all 3` formats.\n\
                    - NF4 has 16 numbers.\n\n$$x = 4$$\n\n| 5 | 6 |\n";
        let of = |code: &str, shown: &str, reasons: &str| {
            faults_of(&notebook(&[("markdown", text, ""), ("code", code, shown)]), reasons)
        };
        let all = of("", "", "");
        assert_eq!(
            all,
            ["[0] Int8 took **half** the time.", "[0] The text was the same in  formats.", "[0] NF4 has 16 numbers."]
        );
        assert_eq!(of("claim(\"Int8 took half the \\\n  time.\", a < b)", "", "").len(), 2);
        assert_eq!(of("x.that(\n  \"the text was the same in formats\", same)", "", "").len(), 2);
        assert_eq!(of("", "- Int8 took half the time, and more", "").len(), 2);
        assert_eq!(of("", "", "# a definition\nNF4 has 16...\n").len(), 2);
        let two = "NF4 has 16 numbers. NF4 has 16 signs.";
        let of_two = faults_of(&notebook(&[("markdown", two, "")]), "NF4 has 16...");
        assert!(of_two.len() == 1 && of_two[0].starts_with("[0] NF4 has 16 signs."), "{of_two:?}");
        let stale = of("", "", "# a definition\nNF4 has 17...");
        assert!(stale.len() == 4 && stale[3].contains("no such sentence any more"), "{stale:?}");
    }

    #[test]
    fn a_claim_that_the_run_contradicts_is_a_fault() {
        let found = faults_of(&notebook(&[("code", "claim(..)", "On this run\n  + a\n  - not so here: b is 2")]), "");
        assert_eq!(found, ["[0] not so: b is 2, in the committed run"]);
        let found = faults_of(&notebook(&[("code", "claim(..)", "On this run\n  . not measured yet: b is 2")]), "");
        assert_eq!(found, ["[0] not measured: b is 2, in the committed run"]);
    }

    #[test]
    fn only_tags_are_left_out() {
        assert_eq!(without_tags("<b>a</b> < 3 and c > 4<br>"), "a < 3 and c > 4");
    }

    #[test]
    fn what_tells_learners_what_to_write_is_no_claim() {
        let mut exercise = notebook(&[("markdown", "**Your turn.** Give all 3 rows.", ""), ("code", "todo!()", "")]);
        assert_eq!(faults_of(&exercise, "").len(), 1);
        exercise["cells"][1]["metadata"]["nbgrader"]["solution"] = json!(true);
        assert_eq!(faults_of(&exercise, ""), [""; 0]);
        assert_eq!(faults_of(&notebook(&[("markdown", "### Further\n\n- Try 3 lengths.", "")]), ""), [""; 0]);
    }
}

//! What a grading run found, as a table and as CSV files.

use std::fmt::Write;

use crate::ui::{plain, shortened};

/// An exercise's points.
#[derive(Debug, Clone, PartialEq)]
pub struct Score {
    /// nbgrader's name of the cell.
    pub exercise: String,
    /// What was earned.
    pub points: f64,
    /// What it is worth.
    pub max: f64,
    /// `graded`, `by hand` (a person has to), or why there are no points.
    pub status: String,
}

/// A notebook's line.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Who handed it in.
    pub student: String,
    /// For which lesson; empty if for none.
    pub lesson: String,
    /// The file, below the folder that was graded.
    pub file: String,
    /// How it ran: see `docs/grading.md`.
    pub status: String,
    /// What else a person should know.
    pub notes: Vec<String>,
    /// Its exercises in the lesson's order; none if it could not be graded.
    pub scores: Vec<Score>,
}

/// Characters of a column of the table; the files have all of it.
const LONGEST_CELL: usize = 60;

/// A score that waits for a person.
pub const BY_HAND: &str = "by hand";

impl Row {
    /// Points, of how many, and how many of these wait for a person.
    pub fn points(&self) -> Option<[f64; 3]> {
        let sum = |of: fn(&Score) -> f64| self.scores.iter().map(of).sum();
        let by_hand = |s: &Score| if s.status == BY_HAND { s.max } else { 0.0 };
        (!self.scores.is_empty()).then(|| [sum(|s| s.points), sum(|s| s.max), sum(by_hand)])
    }
}

/// `grades.csv`: a line for each notebook.
pub fn grades_csv(rows: &[Row]) -> String {
    let lines = rows.iter().map(|row| {
        let [points, max, by_hand] = row.points().map_or_else(Default::default, |sums| sums.map(shown));
        let notes = row.notes.join("; ");
        [&row.student, &row.lesson, &points, &max, &by_hand, &row.status, &row.file, &notes].map(Clone::clone)
    });
    csv_lines(&["student", "lesson", "points", "max", "by_hand", "status", "file", "notes"], lines)
}

/// `exercises.csv`: a line for each exercise.
pub fn exercises_csv(rows: &[Row]) -> String {
    let lines = rows.iter().flat_map(|row| {
        row.scores.iter().map(|s| {
            let [points, max] = [s.points, s.max].map(shown);
            [row.student.clone(), row.lesson.clone(), s.exercise.clone(), points, max, s.status.clone()]
        })
    });
    csv_lines(&["student", "lesson", "exercise", "points", "max", "status"], lines)
}

/// For people: aligned columns, notes below their line.
pub fn table(rows: &[Row]) -> String {
    let mut lines = vec![["student", "lesson", "points", "by hand", "status"].map(str::to_owned)];
    lines.extend(rows.iter().map(|row| {
        let [points, by_hand] = row.points().map_or(["-".to_owned(), String::new()], |sums| {
            let [points, max, by_hand] = sums.map(shown);
            [format!("{points} of {max}"), if by_hand == "0" { String::new() } else { by_hand }]
        });
        let cells = [row.student.clone(), row.lesson.clone(), points, by_hand, row.status.clone()];
        cells.map(|cell| shortened(&plain(&cell).replace('\n', "\\n"), LONGEST_CELL))
    }));
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; 5] = std::array::from_fn(width);
    let mut text = String::new();
    for (number, line) in lines.iter().enumerate() {
        let cells: Vec<String> = line.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}", cells.join("  ").trim_end());
        let notes = number.checked_sub(1).map_or(&[][..], |row| &rows[row].notes);
        for note in notes {
            let _ = writeln!(text, "    {}", plain(note));
        }
    }
    text
}

/// The points, without the tail that sums of decimal fractions have.
pub fn shown(points: f64) -> String {
    ((points * 1000.0).round() / 1000.0).to_string()
}

/// Whether a spreadsheet may compute it; some read signs of full width as the same.
pub fn is_formula(field: &str) -> bool {
    field.trim_start().starts_with(['=', '+', '-', '@', '＝', '＋', '－', '＠'])
}

/// A header and lines of comma-separated values, none of which a spreadsheet takes for a formula.
pub fn csv_lines(header: &[&str], lines: impl IntoIterator<Item = impl AsRef<[String]>>) -> String {
    let quoted = |field: &str| {
        let field = plain(field);
        let is_formula = is_formula(&field) && field.parse::<f64>().is_err();
        let field = if is_formula { format!("'{field}") } else { field };
        // In many countries, the semicolon is the separator.
        let is_quoted = field.contains([',', ';', '"', '\n']);
        if is_quoted { format!("\"{}\"", field.replace('"', "\"\"")) } else { field }
    };
    let line = |fields: Vec<&str>| fields.into_iter().map(quoted).collect::<Vec<_>>().join(",") + "\n";
    let lines = lines.into_iter().map(|fields| line(fields.as_ref().iter().map(String::as_str).collect()));
    line(header.to_vec()) + &lines.collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Row> {
        let score = |exercise: &str, points: f64, max: f64, status: &str| Score {
            exercise: exercise.into(),
            points,
            max,
            status: status.into(),
        };
        let row = |student: &str, status: &str, notes: &[&str], scores: Vec<Score>| Row {
            student: student.into(),
            lesson: if scores.is_empty() { String::new() } else { "01-x".into() },
            file: format!("{student}.ipynb"),
            status: status.into(),
            notes: notes.iter().map(|n| (*n).into()).collect(),
            scores,
        };
        vec![
            row("smith", "graded", &[], vec![score("time", 2.5, 3.0, "graded"), score("essay", 0.0, 2.0, BY_HAND)]),
            row("o\"hara, j", "unreadable", &["no notebook: Expecting value"], vec![]),
        ]
    }

    #[test]
    fn the_table_is_aligned_and_has_notes() {
        let expected = "\
student    lesson  points    by hand  status
smith      01-x    2.5 of 5  2        graded
o\"hara, j          -                  unreadable
    no notebook: Expecting value
";
        assert_eq!(table(&rows()), expected);
    }

    #[test]
    fn what_learners_name_is_no_formula_and_no_command() {
        let mut rows = rows();
        rows[0].student = "=HYPERLINK(\"http://x\")".into();
        rows[1].notes = vec!["@SUM(1)\u{1b}[2J".into()];
        rows[1].student = "a;=1+1\nsmith,01-x,10".into();
        rows[1].file = " ＝1+1".into();
        let text = grades_csv(&rows);
        assert!(text.contains("\n\"a;=1+1\nsmith,01-x,10\",") && text.contains(",' ＝1+1,"), "{text}");
        assert_eq!(table(&rows).lines().count(), 4, "a name is no line of its own");
        rows[1].student = "n".repeat(250);
        assert!(table(&rows).lines().all(|line| line.chars().count() < 120), "{}", table(&rows));
        assert!(
            text.contains("\n\"'=HYPERLINK(\"\"http://x\"\")\",01-x") && text.contains(",'@SUM(1)\\u{1b}[2J\n"),
            "{text}"
        );
        assert!(!table(&rows).contains('\u{1b}'));
    }

    #[test]
    fn csv_quotes_what_would_break_a_line() {
        assert_eq!(
            grades_csv(&rows()),
            "student,lesson,points,max,by_hand,status,file,notes\n\
             smith,01-x,2.5,5,2,graded,smith.ipynb,\n\
             \"o\"\"hara, j\",,,,,unreadable,\"o\"\"hara, j.ipynb\",no notebook: Expecting value\n"
        );
        let exercises = exercises_csv(&rows());
        assert_eq!(
            exercises.lines().collect::<Vec<_>>()[1..],
            ["smith,01-x,time,2.5,3,graded", "smith,01-x,essay,0,2,by hand"]
        );
    }
}

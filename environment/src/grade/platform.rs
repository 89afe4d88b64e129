//! Grades as learning platforms import them: a line for each student, a column for each lesson.

use std::collections::{BTreeMap, BTreeSet};

use super::report::{Row, csv_lines, shown};
use super::{NOT_GRADED, SUPERSEDED};

/// A learning platform.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Platform {
    /// Moodle's grade import: map `username` to the user name, and each lesson to its grade item
    Moodle,
    /// Canvas's gradebook import: students by their login, a lesson that Canvas does not have becomes an assignment
    Canvas,
}

/// The file to import. Where nothing was graded, there is nothing to import.
pub fn table(platform: Platform, rows: &[Row]) -> String {
    let counts = |row: &&Row| row.status != SUPERSEDED && !NOT_GRADED.contains(&row.status.as_str());
    let rows: Vec<&Row> = rows.iter().filter(counts).collect();
    let lessons: BTreeSet<&str> = rows.iter().map(|row| row.lesson.as_str()).collect();
    let points: BTreeMap<(&str, &str), String> = rows
        .iter()
        .filter_map(|row| Some(((row.student.as_str(), row.lesson.as_str()), shown(row.points()?[0]))))
        .collect();
    let most = |lesson: &str| rows.iter().find(|row| row.lesson == lesson)?.points().map(|[_, max, _]| shown(max));
    let students: BTreeSet<&str> = rows.iter().map(|row| row.student.as_str()).collect();
    let own = |student: &str| match platform {
        Platform::Moodle => vec![student.to_owned()],
        Platform::Canvas => vec![student.to_owned(), String::new(), String::new(), student.to_owned(), String::new()],
    };
    let mut header = match platform {
        Platform::Moodle => vec!["username"],
        Platform::Canvas => vec!["Student", "ID", "SIS User ID", "SIS Login ID", "Section"],
    };
    header.extend(&lessons);
    let mut lines = Vec::new();
    if platform == Platform::Canvas {
        let mut possible = vec!["    Points Possible".to_owned()];
        possible.resize(5, String::new());
        possible.extend(lessons.iter().map(|lesson| most(lesson).unwrap_or_default()));
        lines.push(possible);
    }
    lines.extend(students.iter().map(|student| {
        let mut line = own(student);
        line.extend(lessons.iter().map(|lesson| points.get(&(student, lesson)).cloned().unwrap_or_default()));
        line
    }));
    csv_lines(&header, lines)
}

#[cfg(test)]
mod tests {
    use super::super::report::Score;
    use super::*;

    fn rows() -> Vec<Row> {
        let row = |student: &str, lesson: &str, points: f64, status: &str| Row {
            student: student.into(),
            lesson: lesson.into(),
            file: String::new(),
            status: status.into(),
            notes: vec![],
            scores: vec![Score { exercise: "x".into(), points, max: 10.0, status: "graded".into() }],
        };
        vec![
            row("jones", "01-a", 7.5, "graded"),
            row("jones", "01-a", 0.0, "superseded"),
            row("smith", "01-a", 0.0, "unreadable"),
            row("smith", "02-b", 10.0, "graded"),
        ]
    }

    #[test]
    fn moodle_takes_a_line_for_each_student() {
        assert_eq!(table(Platform::Moodle, &rows()), "username,01-a,02-b\njones,7.5,\nsmith,,10\n");
    }

    #[test]
    fn canvas_wants_its_columns_and_the_points_that_are_possible() {
        assert_eq!(
            table(Platform::Canvas, &rows()),
            "Student,ID,SIS User ID,SIS Login ID,Section,01-a,02-b\n    Points Possible,,,,,10,10\njones,,,jones,,7.5,\nsmith,,,smith,,,10\n"
        );
    }
}

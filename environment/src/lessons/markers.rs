//! What a source notebook must hold before nbgrader may make a starter of it.
//!
//! nbgrader itself stops at the first fault without naming cell or line, and silently accepts some: an END without a
//! BEGIN, a whole code cell that lacks markers, a check that is worth nothing.

use std::collections::HashMap;

use serde_json::Value;

use super::{Lesson, cells, grade_id, is, nbgrader, text_of};

/// Regions that a release takes out, and which cells may have them (a flag of nbgrader's).
const REGIONS: [(&str, &str, &str); 2] = [("SOLUTION", "solution", "solution"), ("HIDDEN TESTS", "grade", "check")];

/// All faults of the lessons, one a line: path, cell, line, and what is wrong.
pub fn faults(lessons: &[Lesson]) -> Vec<String> {
    let mut found = Vec::new();
    let mut ids: HashMap<&str, String> = HashMap::new();
    for lesson in lessons {
        for cell in cells(&lesson.notebook) {
            let place =
                format!("{}, cell {}", lesson.source().display(), cell["id"].as_str().unwrap_or("without an id"));
            found.extend(cell_faults(cell).into_iter().map(|(line, fault)| match line {
                Some(line) => format!("{place}, line {line}: {fault}"),
                None => format!("{place}: {fault}"),
            }));
            if let Some(id) = grade_id(cell)
                && let Some(first) = ids.insert(id, place.clone())
            {
                // Unique over the whole course: a handed-in notebook's lesson is found by its grade_ids.
                found.push(format!("{place}: the grade_id {id} is already taken ({first})"));
            }
        }
    }
    found
}

type Fault = (Option<usize>, String);

fn cell_faults(cell: &Value) -> Vec<Fault> {
    let text = text_of(cell);
    let mut faults = Vec::new();
    for (region, flag, kind) in REGIONS {
        faults.extend(region_faults(&text, region));
        let begin = text.lines().position(|line| line.contains(&format!("BEGIN {region}")));
        if let Some(line) = begin.filter(|_| !is(cell, flag)) {
            let why = if nbgrader(cell).is_null() { "it has no nbgrader metadata" } else { "its metadata says so" };
            faults.push((Some(line + 1), format!("BEGIN {region} in a cell that is not a {kind} cell: {why}")));
        }
    }
    if nbgrader(cell).is_null() {
        return faults;
    }
    let mut whole = |fault: &str| faults.push((None, fault.to_owned()));
    if nbgrader(cell)["schema_version"] != 3 {
        whole("its nbgrader metadata is not of schema_version 3");
    }
    if grade_id(cell).is_none() {
        whole("its nbgrader metadata has no grade_id");
    }
    if is(cell, "grade") && nbgrader(cell)["points"].as_f64().is_none_or(|points| points <= 0.0) {
        whole("a graded cell needs points, a number above 0");
    }
    if is(cell, "solution") && cell["cell_type"] == "code" && !text.contains("BEGIN SOLUTION") {
        whole("a solution cell without BEGIN SOLUTION: all of it would become the stub");
    }
    faults
}

fn region_faults(text: &str, region: &str) -> Vec<Fault> {
    let (begin, end) = (format!("BEGIN {region}"), format!("END {region}"));
    let mut faults = Vec::new();
    let mut open = None;
    for (number, line) in (1..).zip(text.lines()) {
        if line.contains(&begin) {
            if let Some(outer) = open {
                faults.push((Some(number), format!("{begin} inside the region that begins on line {outer}")));
            }
            open = Some(number);
        } else if line.contains(&end) && open.take().is_none() {
            faults.push((Some(number), format!("{end} without {begin}")));
        }
    }
    faults.extend(open.map(|line| (Some(line), format!("{begin} without {end}"))));
    faults
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn lesson(cells: Value) -> Lesson {
        Lesson { name: "01-x".into(), dir: "n/01-x".into(), notebook: json!({ "cells": cells }) }
    }

    fn code(id: &str, source: &str, nbgrader: Value) -> Value {
        json!({"cell_type": "code", "id": id, "source": source, "metadata": {"nbgrader": nbgrader}})
    }

    fn solution(grade_id: &str) -> Value {
        json!({"grade": false, "grade_id": grade_id, "locked": false, "schema_version": 3, "solution": true, "task": false})
    }

    fn check(points: Value) -> Value {
        json!({"grade": true, "grade_id": "check", "locked": true, "points": points, "schema_version": 3, "solution": false, "task": false})
    }

    #[test]
    fn a_sound_lesson_has_no_faults() {
        let cells = json!([
            {"cell_type": "markdown", "id": "m", "source": ["# Title\n", "text"], "metadata": {}},
            code("a", "fn f() {\n    // BEGIN SOLUTION\n    1;\n    // END SOLUTION\n}", solution("f")),
            code("b", "check()", check(json!(2.5))),
        ]);
        assert_eq!(faults(&[lesson(cells)]), Vec::<String>::new());
    }

    #[test]
    fn markers_out_of_order_are_named_with_their_line() {
        let nested = "x\n// BEGIN SOLUTION\n// BEGIN SOLUTION\n// END SOLUTION\n// END SOLUTION";
        let all = |source: &str| faults(&[lesson(json!([code("a", source, solution("f"))]))]);
        let found = all(nested);
        assert_eq!(
            found[0],
            "n/01-x/solution.ipynb, cell a, line 3: BEGIN SOLUTION inside the region that begins on line 2"
        );
        assert_eq!(found[1], "n/01-x/solution.ipynb, cell a, line 5: END SOLUTION without BEGIN SOLUTION");
        assert!(all("// BEGIN SOLUTION\n1")[0].ends_with("line 1: BEGIN SOLUTION without END SOLUTION"));
        assert!(all("1")[0].ends_with("all of it would become the stub"));
    }

    #[test]
    fn markers_in_other_cells_are_faults() {
        let region = "// BEGIN SOLUTION\n// END SOLUTION";
        let bare = json!([{"cell_type": "code", "id": "a", "source": region, "metadata": {}}]);
        assert!(
            faults(&[lesson(bare)])[0]
                .ends_with("line 1: BEGIN SOLUTION in a cell that is not a solution cell: it has no nbgrader metadata")
        );
        let found = faults(&[lesson(json!([code("b", region, check(json!(1)))]))]);
        assert!(found[0].ends_with("its metadata says so"), "{found:?}");
        let stray = faults(&[lesson(json!([code("b", "// END HIDDEN TESTS", check(json!(1)))]))]);
        assert!(stray[0].ends_with("line 1: END HIDDEN TESTS without BEGIN HIDDEN TESTS"), "{stray:?}");
    }

    #[test]
    fn checks_need_points_and_ids_of_their_own() {
        for points in [Value::Null, json!(0), json!("3")] {
            let found = faults(&[lesson(json!([code("b", "check()", check(points))]))]);
            assert_eq!(found, ["n/01-x/solution.ipynb, cell b: a graded cell needs points, a number above 0"]);
        }
        let one = lesson(json!([code("b", "check()", check(json!(1)))]));
        let found = faults(&[one.clone(), one]);
        assert!(found[0].contains("the grade_id check is already taken"), "{found:?}");
        let found = faults(&[lesson(json!([code("b", "check()", json!({"grade": false}))]))]);
        assert!(found[0].contains("schema_version 3") && found[1].contains("no grade_id"), "{found:?}");
    }
}

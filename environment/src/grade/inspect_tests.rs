use super::*;
use serde_json::json;

fn remarks_on(cells: &[&str]) -> Vec<String> {
    let notebook = |cells: &[&str]| {
        let cells: Vec<Value> = cells.iter().map(|cell| json!({"cell_type": "code", "source": cell})).collect();
        json!({"cells": cells})
    };
    super::remarks_on(notebook(cells), notebook(&["std::fs::create_dir_all(\"results\")?;"])).unwrap()
}

#[test]
fn what_no_exercise_asks_for_is_named() {
    let one = |cell: &str| remarks_on(&[cell]).join("; ");
    assert_eq!(one("fn check_resolve_dtype<T>(_: T) -> f64 { 7.0 }"), "read cell 1: defines `check_resolve_dtype`");
    assert_eq!(one("mod quantlab { pub mod model {} }"), "read cell 1: defines `quantlab`");
    assert_eq!(one("mod quantlab_course {}"), "read cell 1: defines `quantlab_course`");
    assert_eq!(one("use my::thing as check_it;"), "read cell 1: defines `check_it`");
    assert_eq!(one("let x = unsafe { *(7 as *const u8) };"), "read cell 1: uses `unsafe`, uses raw pointers");
    assert_eq!(one("use std::{fs, collections::HashMap};"), "read cell 1: uses files");
    assert_eq!(one("std::process::exit(0);"), "read cell 1: uses processes");
    assert_eq!(one("println!(\"{:?}\", std::env::vars());"), "read cell 1: uses environment variables");
    assert_eq!(one("extern \"C\" { fn getpid() -> i32; }"), "read cell 1: calls foreign functions");
    assert_eq!(one("let text = include_str!(\"/etc/passwd\");"), "read cell 1: uses files");
}

#[test]
fn another_way_to_say_it_is_named_too() {
    for (cell, expected) in [
        ("use std::*;\nfs::read(\"/etc/passwd\")?;", "brings in all of `std`"),
        ("use core::{*};", "brings in all of `core`"),
        ("use std as s;\ns::fs::read(\"x\")?;", "gives `std` another name"),
        ("use std::{self as s};", "gives `std` another name"),
        ("let text = r#std::r#fs::read_to_string(\"x\")?;", "uses files"),
        ("use std::include_str as text;", "uses files"),
        ("let home = env!(\"HOME\");", "uses environment variables"),
        ("#[path = \"/etc/passwd\"]\nmod passwd;", "uses files"),
        ("extern crate self as quantlab;", "defines `quantlab`, names the crate `self`"),
        ("extern crate std as s;", "names the crate `std`"),
        ("struct check_it(f64);", "defines `check_it`"),
        ("let check_it = |_: f64| 7.0;", "defines `check_it`"),
        ("macro_rules! check_it { () => { 7.0 } }", "defines `check_it`, defines a macro"),
        (
            "macro_rules! m { ($m:ident) => { std::$m::read(\"x\") } }",
            "brings in parts of `std` by a macro, defines a macro",
        ),
        ("println!(\"{:?}\", { use std::{fs}; fs::read(\"x\") });", "brings in parts of `std` by a macro"),
        ("struct A(u8);\nunsafe impl Send for A {}", "uses `unsafe`"),
        ("impl A { unsafe fn f(&self) {} }", "uses `unsafe`"),
        ("#[no_mangle]\npub extern \"C\" fn malloc() {}", "uses `unsafe`"),
        ("std::arch::global_asm!(\"nop\");", "uses machine code"),
        (
            "trait Shine { fn evcxr_display(self); }\nimpl Shine for quantlab_course::Score { fn evcxr_display(self) {} }",
            "implements a trait for the course's `Score`, shows values its own way",
        ),
    ] {
        assert_eq!(remarks_on(&[cell]).join("; "), format!("read cell 1: {expected}"), "{cell}");
    }
}

#[test]
fn commands_are_named_and_do_not_hide_what_stands_behind_them() {
    for (cell, expected) in [
        (":opt 0\nstd::fs::read(\"x\")?;", "runs evcxr's `:opt`, uses files"),
        ("// First\n\n   :dep libc = \"0.2\"\n:clear\nlet x = 1;", "runs evcxr's `:clear`, runs evcxr's `:dep`"),
        ("let x = 1;\n:opt 0\nstd::process::exit(0);", "runs evcxr's `:opt`, uses processes"),
        ("!cat /etc/passwd", "runs a shell command"),
        (":opt 0\nfn (", "cannot be read as Rust, runs evcxr's `:opt`"),
        ("fn (", "cannot be read as Rust"),
    ] {
        assert_eq!(remarks_on(&[cell]).join("; "), format!("read cell 1: {expected}"), "{cell}");
    }
    let many = remarks_on(&[format!(":{}", "o".repeat(1000)).as_str(); 100]);
    assert!(many.len() == MAX_REMARKS + 1 && many.iter().all(|remark| remark.len() < 2 * LONGEST), "{many:?}");
}

#[test]
fn a_source_that_nests_without_end_is_read_like_any_other() {
    let nested = format!("let x = {}1{};", "(".repeat(20_000), ")".repeat(20_000));
    assert!(remarks_on(&[&nested, &format!("let x = {}1;", "!".repeat(40_000))]).is_empty());
    assert_eq!(remarks_on(&[&"1;".repeat(50_000)]), ["did not read cell 1: it has 100000 characters"]);
}

#[test]
fn an_answer_may_do_what_its_exercise_was_handed_out_with() {
    let cell = |id: &str, solution: bool, source: &str| {
        let nbgrader = json!({"grade_id": id, "solution": solution});
        json!({"cell_type": "code", "metadata": {"nbgrader": nbgrader}, "source": source})
    };
    let safe = "fn wide() { todo!() }\nfn safe() { unsafe { wide() } }";
    let answer = safe.replace("todo!()", "unsafe { load() }");
    let starter = json!({"cells": [cell("wide", true, safe), cell("check", false, "unsafe { 1 }")]});
    let one = |id: &str, source: &str| {
        super::remarks_on(json!({"cells": [cell(id, true, source)]}), starter.clone()).unwrap().join("; ")
    };
    assert_eq!(one("wide", &answer), "");
    assert_eq!(one("wide", &format!("{answer}\nuse std::fs;")), "read cell 1: uses files");
    assert_eq!(one("other", &answer), "read cell 1: uses `unsafe`");
    assert_eq!(one("check", &answer), "read cell 1: uses `unsafe`", "a check is no exercise");
    let without_id = json!({"cells": [{"cell_type": "code", "source": answer}]});
    assert_eq!(super::remarks_on(without_id, starter.clone()).unwrap(), ["read cell 1: uses `unsafe`"]);
}

#[test]
fn answers_and_the_starters_own_cells_are_not_remarked_on() {
    let answer = "fn mean(values: &[f64]) -> f64 {\n    let process = values.iter().sum::<f64>();\n    process / values.len() as f64\n}";
    let cells = [answer, "std::fs::create_dir_all(\"results\")?;", "", "// :opt 0", "let env = 3; env + 1"];
    assert!(remarks_on(&cells).is_empty(), "{:?}", remarks_on(&cells));
}

use super::super::Estimate;
use super::*;

fn sample() -> Table {
    Table::new("Prompt lengths")
        .column("kind", "", ["short", "long"])
        .column("prompt", "tokens", [16, 1024])
        .column("latency", "s", [0.1234567890123, 1.5])
        .column("rate", "tokens/s", [Estimate::new(12.34, 12.11, 12.62), Estimate::exact(9.0)])
        .note("model embedded | cpu")
}

#[test]
fn text_is_aligned() {
    let text = sample().to_text();
    assert_eq!(
        text,
        "Prompt lengths\n\
         kind     prompt  latency                  rate\n\
         \x20      (tokens)      (s)            (tokens/s)\n\
         -----  --------  -------  --------------------\n\
         short        16    0.123  12.34 [12.11, 12.62]\n\
         long      1,024    1.500                  9.00\n\
         model embedded | cpu\n"
    );
}

#[test]
fn html_escapes_cells_and_names() {
    let html = Table::new("a & b").column("<bar>", "<s>", ["<script>", "x\"y"]).note("<note>").to_html();
    assert!(html.contains("&lt;bar&gt;<br><span class=\"unit\">&lt;s&gt;</span>"), "{html}");
    assert!(html.contains("&lt;script&gt;") && html.contains("x&quot;y"), "{html}");
    assert!(html.contains("&lt;note&gt;") && html.contains("a &amp; b"), "{html}");
    assert!(!html.contains("<bar>") && !html.contains("<script>"), "{html}");
}

#[test]
fn html_aligns_numbers_right_and_words_left() {
    let html = sample().to_html();
    assert!(html.contains("<td class=\"text\" style=\"text-align: left\">short</td>"), "{html}");
    assert!(html.contains("<td style=\"text-align: right\">1,024</td>"), "{html}");
}

#[test]
fn csv_has_all_digits_and_reads_back() {
    use polars::prelude::*;
    let csv = sample().to_csv_string().unwrap();
    assert_eq!(
        csv,
        "kind,prompt (tokens),latency (s),rate (tokens/s),rate low (tokens/s),rate high (tokens/s)\n\
         short,16,0.1234567890123,12.34,12.11,12.62\n\
         long,1024,1.5,9.0,9.0,9.0\n"
    );
    let frame = CsvReader::new(std::io::Cursor::new(csv)).finish().unwrap();
    assert!(frame.equals(&sample().data_frame().unwrap()));
}

#[test]
fn a_csv_file_in_a_missing_folder_is_an_error_with_path_and_hint() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("none").join("table.csv");
    let error = sample().write_csv(&path).unwrap_err();
    assert!(error.message().contains("table.csv") && error.hint_text().is_some(), "{error}");
    let path = folder.path().join("table.csv");
    sample().write_csv(&path).unwrap();
    assert_eq!(std::fs::read_to_string(path).unwrap(), sample().to_csv_string().unwrap());
}

#[test]
fn columns_of_unequal_length_are_an_error() {
    let error = |table: Table| table.checked().unwrap_err().message().to_owned();
    let columns = Table::new("t").column("a", "", [1, 2]).column("b", "", [1]);
    assert_eq!(error(columns), "table `t`: column `b` has 1 value, but `a` has 2 values");
    assert_eq!(error(Table::new("t").headings([("a", "")]).row((1, 2))), "table `t`: a row of 2 values for 1 columns");
    assert!(Table::new("t").row((1,)).checked().is_err());
}

#[test]
fn words_and_numbers_do_not_mix_and_names_are_unique() {
    let table = || Table::new("t").headings([("a", "")]).row((1,));
    let error = |table: Table| table.checked().unwrap_err();
    assert!(error(table().row(("x",))).message().contains("mixes words and numbers"));
    let mixed = [Cell::from("x"), 1.into()];
    assert!(error(Table::new("t").column("b", "", mixed)).message().contains("mixes words and numbers"));
    assert!(error(table().column("a", "", [2])).message().contains("two columns `a`"));
    assert!(error(table().decimals("b", 2)).hint_text().unwrap().contains("`a`"));
}

#[test]
fn the_first_error_takes_the_place_of_the_table() {
    let table =
        Table::new("<t>").column("a", "", [1]).column("b", "", ["x", "y"]).row((1, 2, 3)).digits("c", 2).note("n");
    let message = "table `<t>`: column `b` has 2 values, but `a` has 1 value";
    assert!(table.to_text().starts_with(message) && table.to_text().contains("hint: give every column one value"));
    assert!(table.to_html().starts_with("<p>table `&lt;t&gt;`: column `b`"), "{}", table.to_html());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table.csv");
    for error in [
        table.clone().checked().map(drop),
        table.write_csv(&path),
        table.data_frame().map(drop),
        table.to_csv_string().map(drop),
    ] {
        assert_eq!(error.unwrap_err().message(), message);
    }
    assert!(!path.exists());
}

#[test]
fn an_empty_table_shows_its_headings() {
    let table = Table::new("t").headings([("prompt", "tokens"), ("latency", "s")]);
    assert_eq!(table.to_text(), "t\nprompt    latency\n(tokens)  (s)\n--------  -------\n");
    assert!(table.to_html().contains("latency"));
    assert_eq!(table.to_csv_string().unwrap(), "prompt (tokens),latency (s)\n");
    let none = Table::new("");
    assert_eq!(none.to_text(), "\n");
    assert!(none.to_csv_string().is_ok() && none.data_frame().unwrap().height() == 0);
}

#[test]
fn rows_of_different_types_and_missing_values() {
    let table = Table::new("t")
        .headings([("precision", ""), ("latency", "s"), ("tokens", "")])
        .row(("float32", Some(0.5), 50usize))
        .row(("float16".to_string(), None::<f64>, 50usize));
    assert!(table.to_text().contains("float16                 50"), "{}", table.to_text());
    assert!(table.to_csv_string().unwrap().ends_with("float16,,50\n"));
}

#[test]
fn a_data_frame_becomes_a_table() {
    let frame = sample().data_frame().unwrap();
    let table = Table::from_data_frame("again", &frame).unwrap();
    assert_eq!(table.to_csv_string().unwrap(), sample().to_csv_string().unwrap());
}

#[test]
fn long_words_are_cut_in_text_only() {
    let long = "word ".repeat(40);
    let table = Table::new("t").column("text", "", [long.as_str()]);
    assert!(table.to_text().lines().all(|line| line.chars().count() <= 60));
    assert!(table.to_html().contains(&long) && table.to_csv_string().unwrap().contains(&long));
}

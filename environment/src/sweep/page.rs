//! Speeds in a Markdown page: a table for each model on each kind of processor, program beside program.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::Measured;
use crate::home::write_atomically;

/// Writes tables of what is measured in `folder` into a page, between the mark with the folder's name and the next end.
///
/// # Errors
/// A page without these marks; no speeds.
pub fn write(measured: &[Measured], folder: &Path, page: &Path) -> Result<()> {
    let text = fs::read_to_string(page).with_context(|| format!("cannot read {}", page.display()))?;
    let (before, after) = place(&text, folder, page)?;
    let tables = tables(measured);
    ensure!(!tables.is_empty(), "{}: no speeds were measured", folder.display());
    write_atomically(page, format!("{before}{tables}{after}").as_bytes())?;
    println!("{}", page.display());
    Ok(())
}

/// What is before and after the place of a folder's tables in the text of a page.
///
/// # Errors
/// There is none.
pub fn place<'a>(text: &'a str, folder: &Path, page: &Path) -> Result<(&'a str, &'a str)> {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let (begin, end) = (format!("<!-- sweep: {name} -->\n"), "<!-- end -->");
    let start = text.find(&begin).map(|at| at + begin.len());
    let found = start.and_then(|start| Some((start, start + text[start..].find(end)?)));
    match found {
        Some((start, end)) if !text[start..end].contains("<!-- sweep:") => Ok((&text[..start], &text[end..])),
        _ => bail!("{} has no place for {name}\n  try: lines {} and {end} in it", page.display(), begin.trim()),
    }
}

/// Whatever sets one table apart from another: the model, the processor, the device, tokens of context, and threads.
type Kind<'a> = (&'a str, &'a str, &'a str, Option<u64>, Option<u64>);

/// A table for each kind of measurement, of the state of the library that was measured last.
pub fn tables(measured: &[Measured]) -> String {
    let mut kinds: BTreeMap<Kind, Vec<(&Measured, &Value)>> = BTreeMap::new();
    for one in measured.iter().filter(|one| one.unit.benchmark != "quality") {
        for row in &one.rows {
            let device = row["device"].as_str().filter(|device| *device != "cpu").unwrap_or_default();
            let (context, threads) = (row["context"].as_u64(), row["threads"].as_u64());
            let kind = (one.unit.model.as_str(), one.processor.as_str(), device, context, threads);
            kinds.entry(kind).or_default().push((one, row));
        }
    }
    let text = |((model, processor, device, context, threads), mut rows): (Kind, Vec<(&Measured, &Value)>)| {
        let last = rows.iter().map(|(one, _)| one).max_by_key(|one| &one.date).map(|one| one.state.clone());
        rows.retain(|(one, _)| Some(&one.state) == last.as_ref());
        let processor = match microarchitecture(processor) {
            Some(name) => format!("{processor} ({name})"),
            None => processor.to_owned(),
        };
        let on = if device.is_empty() { processor } else { format!("{device}, {processor}") };
        let title = format!("**{model}** on {on}");
        Table::of(&rows).text(&title, context, threads)
    };
    kinds.into_iter().map(text).collect()
}

/// What the turns of one program in one format gave.
struct Program<'a> {
    name: String,
    format: String,
    rows: Vec<&'a Value>,
    turns: BTreeSet<usize>,
}

#[derive(Default)]
struct Table<'a> {
    /// When they were measured.
    times: BTreeSet<&'a str>,
    machines: BTreeSet<&'a str>,
    /// How many runs each figure is a median of.
    repeats: BTreeSet<u64>,
    programs: Vec<Program<'a>>,
}

impl<'a> Table<'a> {
    fn of(rows: &[(&'a Measured, &'a Value)]) -> Self {
        let (mut table, mut seen) = (Self::default(), BTreeSet::new());
        let programs = &mut table.programs;
        let mut newest_first = rows.to_vec();
        newest_first.sort_by_key(|(one, _)| Reverse(&one.date));
        for (one, row) in newest_first {
            let (name, format) = (name(row), format(row, &one.unit.model));
            let at = programs.iter().position(|program| (&program.name, &program.format) == (&name, &format));
            let at = at.unwrap_or_else(|| {
                programs.push(Program { name, format, rows: Vec::new(), turns: BTreeSet::new() });
                programs.len() - 1
            });
            let [batch, prompt] = ["batch", "prompt"].map(|key| row[key].as_u64());
            // What settings of before had measured in this turn, these have measured again.
            if seen.insert((at, one.unit.turn, batch, prompt)) {
                programs[at].rows.push(row);
                programs[at].turns.insert(one.unit.turn);
                table.times.extend(one.began.iter().chain([&one.date]).map(String::as_str));
                table.machines.extend(Some(one.machine.as_str()).filter(|name| !name.is_empty()));
                // What was taken from a table does not say of how many runs it is.
                table.repeats.extend(one.note.is_none().then(|| repeats(&one.unit.arguments)));
            }
        }
        // This library first, the others by their names, in each width of the weights.
        programs.sort_by_key(|program| {
            (Reverse(bits(&program.format)), !program.name.starts_with("**"), program.name.clone())
        });
        table
    }

    /// The first and the last minute; the day once, if they share it.
    fn when(&self) -> Option<String> {
        let (first, last) = (*self.times.first()?, *self.times.last()?);
        let same_day = first.split_once(' ').zip(last.split_once(' ')).filter(|(first, last)| first.0 == last.0);
        match same_day {
            _ if first == last => Some(first.to_owned()),
            Some((_, (_, minute))) => Some(format!("{first} to {minute}")),
            None => Some(format!("{first} to {last}")),
        }
    }

    fn text(&self, title: &str, context: Option<u64>, threads: Option<u64>) -> String {
        let rows = || self.programs.iter().flat_map(|program| &program.rows);
        let all = |key: &str| rows().filter_map(|row| row[key].as_u64()).collect::<BTreeSet<u64>>();
        let mut facts: Vec<String> = self.when().into_iter().collect();
        facts.extend(Some(self.machines.len()).filter(|n| *n > 1).map(|n| format!("on {n} machines")));
        facts.extend(threads.map(|n| if n == 1 { "1 thread".to_owned() } else { format!("{n} threads") }));
        let isas = rows().filter_map(|row| row["isa"].as_str()).map(|isa| format!("kernels for {isa}"));
        facts.extend(isas.collect::<BTreeSet<_>>());
        let mut bandwidths: Vec<f64> = rows().filter_map(|row| row["bandwidth_gb_s"].as_f64()).collect();
        bandwidths.sort_by(f64::total_cmp);
        facts.extend(from_to(bandwidths.into_iter().map(short)).map(|ends| format!("memory that reads {ends} GB/s")));
        let runs = from_to(self.repeats.iter().map(u64::to_string)).map(|count| match &*count {
            "1" => "each one run".to_owned(),
            _ => format!("each a median of {count} runs"),
        });
        let turns: BTreeSet<usize> = self.programs.iter().map(|program| program.turns.len()).collect();
        if let Some(most) = turns.last().filter(|most| **most > 1) {
            let up_to = if turns.len() > 1 { "up to " } else { "" };
            facts.push(format!("medians of {up_to}{most} turns"));
            facts.extend(runs);
            facts.push("in brackets the least and the most of the turns".to_owned());
        } else {
            facts.extend(runs);
        }
        let mut columns = Vec::new();
        let batches = all("batch");
        for prompt in all("prompt") {
            let batch = batches.first().copied().unwrap_or(1);
            columns.push((Column::Prefill { batch, prompt }, format!("prefill {prompt}{}, ms", of_batch(batch))));
        }
        for batch in batches {
            let after = context.map_or(String::new(), |tokens| format!(" after {tokens}"));
            columns.push((Column::Decode { batch }, format!("decode{after}{}, tok/s", of_batch(batch))));
        }
        let titles: Vec<&str> = columns.iter().map(|(_, title)| title.as_str()).collect();
        let mut text = format!("\n{title}; {}:\n\n| program | format | {} |\n", facts.join(", "), titles.join(" | "));
        text += &format!("| --- | --- |{}\n", " ---: |".repeat(columns.len()));
        for program in &self.programs {
            let cells = columns.iter().map(|(column, _)| program.cell(column)).collect::<Vec<_>>().join(" | ");
            text += &format!("| {} | {} | {cells} |\n", program.name, program.format);
        }
        text + "\n"
    }
}

/// What a column is of.
enum Column {
    Prefill { batch: u64, prompt: u64 },
    Decode { batch: u64 },
}

fn of_batch(batch: u64) -> String {
    if batch == 1 { String::new() } else { format!(", batch {batch}") }
}

/// The first and the last of what is sorted; `None` of nothing.
fn from_to(all: impl Iterator<Item = String>) -> Option<String> {
    let all: Vec<String> = all.collect();
    let (first, last) = (all.first()?, all.last()?);
    Some(if first == last { first.clone() } else { format!("{first} to {last}") })
}

impl Program<'_> {
    /// The median, and what it lies between where there were several turns.
    fn cell(&self, column: &Column) -> String {
        let value = |row: &Value| match column {
            Column::Prefill { batch, prompt } if row["batch"] == *batch && row["prompt"] == *prompt => {
                row["prefill_ms"].as_f64()
            }
            // Rows of several prompts say the same of the decode.
            Column::Decode { batch } if row["batch"] == *batch => row["decode_tok_s"].as_f64(),
            _ => None,
        };
        let mut values: Vec<f64> = self.rows.iter().filter_map(|row| value(row)).collect();
        values.sort_by(f64::total_cmp);
        let (Some(&least), Some(&most)) = (values.first(), values.last()) else { return String::new() };
        let (low, high) = (values[(values.len() - 1) / 2], values[values.len() / 2]);
        let [shown_least, median, shown_most] = [least, (low + high) / 2.0, most].map(short);
        if least == most { median } else { format!("{median} ({shown_least} to {shown_most})") }
    }
}

/// What a processor's family and model are called; `None` of one that is not known here.
///
/// Source: Linux, `arch/x86/include/asm/intel-family.h` and `arch/x86/kernel/cpu/amd.c`.
fn microarchitecture(processor: &str) -> Option<&'static str> {
    let number = |name: &str| {
        let rest = processor.split_once(name)?.1;
        rest.split(',').next()?.trim().parse::<u32>().ok()
    };
    let (family, model) = (number(", cpu family ")?, number(", model ")?);
    let is_amd = processor.contains("AMD");
    match (is_amd, family, model) {
        (true, 23, 0x00..=0x2f) => Some("Zen"),
        (true, 23, _) => Some("Zen 2"),
        (true, 25, 0x10..=0x1f | 0x60..=0x7f | 0xa0..=0xaf) => Some("Zen 4"),
        (true, 25, 0x00..=0x0f | 0x20..=0x5f) => Some("Zen 3"),
        (true, 26, _) => Some("Zen 5"),
        (false, 6, 85) => Some("Skylake or Cascade Lake"),
        (false, 6, 106 | 108) => Some("Ice Lake"),
        (false, 6, 143) => Some("Sapphire Rapids"),
        (false, 6, 173 | 174) => Some("Granite Rapids"),
        (false, 6, 207) => Some("Emerald Rapids"),
        _ => None,
    }
}

/// This library by its engine; another program by its name and version.
fn name(row: &Value) -> String {
    let text = |key: &str| row[key].as_str().unwrap_or_default();
    match (text("program"), text("engine")) {
        ("quantlab", "kernels") => "**quantlab**".to_owned(),
        ("quantlab", engine) => format!("**quantlab**, `{engine}`"),
        (program, _) => program.to_owned(),
    }
}

fn format(row: &Value, model: &str) -> String {
    let is_file = model == "smollm2" || model.ends_with(".gguf");
    let format = match row["precision"].as_str().unwrap_or_default() {
        // The file's own, and that of what is no block.
        "float32" if is_file => "file",
        format => format,
    };
    match row["cache"].as_str() {
        Some(cache) => format!("{format}, keys and values {cache}"),
        None => format.to_owned(),
    }
}

/// About how wide the weights are.
fn bits(format: &str) -> u32 {
    let is = |names: &[&str]| names.iter().any(|name| format.starts_with(name));
    match () {
        () if is(&["float32", "f32"]) => 32,
        () if is(&["bfloat16", "float16", "bf16", "f16"]) => 16,
        () if is(&["int8", "static-int8", "q8"]) => 8,
        () => 4,
    }
}

/// How many runs count, by the arguments of a benchmark, or of another program, which has the same default.
fn repeats(arguments: &[String]) -> u64 {
    let after = arguments.iter().skip_while(|argument| *argument != "--repeats").nth(1).map(String::as_str);
    let told = after.or_else(|| arguments.iter().find_map(|argument| argument.strip_prefix("--repeats=")));
    told.and_then(|count| count.parse().ok()).unwrap_or(7)
}

/// Three digits, or all that are before the point; of a whole number no more than it was measured as.
fn short(value: f64) -> String {
    if value.fract() == 0.0 {
        return value.to_string();
    }
    // Of what is rounded: 99.96 is 100.
    let rounded = format!("{value:.2e}");
    let exponent = rounded.split_once('e').and_then(|(_, exponent)| exponent.parse().ok()).unwrap_or(0_i32);
    format!("{value:.*}", usize::try_from(2 - exponent).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::super::Unit;
    use super::*;
    use serde_json::json;

    fn measured(program: &str, turn: usize, date: &str, state: &str, rows: Vec<Value>) -> Measured {
        let unit = Unit { benchmark: program.into(), model: "m".into(), arguments: Vec::new(), turn };
        let (processor, machine) = ("2 x P".into(), String::new());
        let (began, note) = (None, None);
        Measured { unit, processor, machine, began, date: date.into(), state: state.into(), note, rows }
    }

    fn row(program: &str, precision: &str, batch: usize, prefill_ms: f64, decode_tok_s: f64) -> Value {
        json!({"program": program, "engine": "kernels", "precision": precision, "batch": batch, "prompt": 128,
               "context": 16, "prefill_ms": prefill_ms, "decode_tok_s": decode_tok_s, "threads": 2, "isa": "avx2"})
    }

    #[test]
    fn programs_of_a_width_stand_together_with_the_medians_of_their_turns() {
        let of_turn = |turn, factor: f64| {
            let rows = vec![
                row("quantlab", "float32", 1, 200.0 * factor, 10.0 * factor),
                row("quantlab", "nf4", 1, 100.0 * factor, 40.0 * factor),
                row("quantlab", "nf4", 8, 900.0, 120.0),
            ];
            measured("inference", turn, "2026-12-30 10:00", "new", rows)
        };
        let peer = measured("p", 1, "2026-12-31 09:00", "new", vec![row("p 1.0", "f32", 1, 250.0, 20.04)]);
        let old = measured("inference", 1, "2026-12-29 10:00", "old", vec![row("quantlab", "int8", 1, 1.0, 1.0)]);
        let quality = measured("quality", 1, "2026-12-31 11:00", "newer", vec![json!({"model": "m"})]);
        let all = [of_turn(1, 1.0), of_turn(3, 1.2), peer, old, quality, of_turn(2, 0.5)];
        let expected = "\n**m** on 2 x P; 2026-12-30 10:00 to 2026-12-31 09:00, 2 threads, kernels for avx2, medians of up to 3 turns, \
                        each a median of 7 runs, in brackets the least and the most of the turns:\n\n\
                        | program | format | prefill 128, ms | decode after 16, tok/s | decode after 16, batch 8, tok/s |\n\
                        | --- | --- | ---: | ---: | ---: |\n\
                        | **quantlab** | float32 | 200 (100 to 240) | 10 (5 to 12) |  |\n\
                        | p 1.0 | f32 | 250 | 20.0 |  |\n\
                        | **quantlab** | nf4 | 100 (50 to 120) | 40 (20 to 48) | 120 |\n\n";
        assert_eq!(tables(&all), expected);
    }

    #[test]
    fn what_is_measured_again_counts_once_and_in_the_state_of_the_last() {
        let of = |minute: &str, state: &str, ms| {
            measured("inference", 1, &format!("2026-12-30 {minute}"), state, vec![row("quantlab", "int8", 1, ms, 50.0)])
        };
        let found = tables(&[of("10:07", "new", 90.0), of("10:00", "new", 100.0), of("09:00", "old", 1.0)]);
        // What was measured again has no say in when it was.
        assert!(
            found.contains("; 2026-12-30 10:07, 2 threads, kernels for avx2, each a median of 7 runs:\n"),
            "{found}"
        );
        assert!(found.contains("| **quantlab** | int8 | 90 | 50 |"), "{found}");
    }

    #[test]
    fn a_table_says_from_when_to_when_where_and_of_how_many_runs() {
        let one = |turn, machine: &str, arguments: &[&str], ms| {
            let all = measured("inference", turn, "2026-12-30 10:07", "s", vec![row("quantlab", "int8", 1, ms, 50.0)]);
            let arguments = arguments.iter().map(|one| (*one).to_owned()).collect();
            let unit = Unit { arguments, ..all.unit };
            Measured { unit, machine: machine.to_owned(), began: Some("2026-12-30 09:58".to_owned()), ..all }
        };
        let found = tables(&[one(1, "a", &["--repeats", "2"], 90.04), one(2, "b", &["--repeats=3"], 90.01)]);
        let facts = "; 2026-12-30 09:58 to 10:07, on 2 machines, 2 threads, kernels for avx2, medians of 2 turns, \
                     each a median of 2 to 3 runs, in brackets the least and the most of the turns:\n";
        assert!(found.contains(facts), "{found}");
        // They differ by less than is shown.
        assert!(found.contains("| 90.0 (90.0 to 90.0) | 50 |"), "{found}");
        let once = || one(1, "a", &["--repeats", "1"], 90.0);
        assert!(tables(&[once()]).contains(", each one run:\n"));
        let of_a_table = Measured { note: Some("From a table.".to_owned()), ..once() };
        assert!(tables(&[of_a_table]).contains(", kernels for avx2:\n"));
    }

    #[test]
    fn numbers_have_three_digits() {
        let shown = [0.4567, 9.994, 9.996, 29.96, 99.96, 123.4, 12_345.6, 0.0].map(short);
        assert_eq!(shown, ["0.457", "9.99", "10.0", "30.0", "100", "123", "12346", "0"]);
    }

    #[test]
    fn processors_have_names() {
        let known = ["2 x AMD EPYC, cpu family 25, model 1", "16 x Intel(R) Xeon(R) 8480, cpu family 6, model 143"];
        assert_eq!(known.map(microarchitecture), [Some("Zen 3"), Some("Sapphire Rapids")]);
        assert_eq!(["2 x CPU implementer 0x41, CPU part 0xd0c", "2 x P"].map(microarchitecture), [None, None]);
    }

    #[test]
    fn the_page_of_speeds_says_what_its_measurements_say() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
        let page = fs::read_to_string(docs.join("speed.md")).unwrap();
        let folders: Vec<_> = fs::read_dir(docs.join("speed")).unwrap().flatten().map(|entry| entry.path()).collect();
        for folder in folders.iter().filter(|path| path.is_dir()) {
            let tables = tables(&super::super::table::measured(&folder.join("measured")).unwrap());
            let name = folder.file_name().unwrap().to_string_lossy();
            let is_there = page.contains(&format!("<!-- sweep: {name} -->\n{tables}<!-- end -->"));
            assert!(!tables.is_empty() && is_there, "cargo lab sweep docs/speed/{name}.toml --page docs/speed.md");
        }
    }

    #[test]
    fn a_page_keeps_what_is_around_its_tables() {
        let dir = tempfile::tempdir().unwrap();
        let (page, folder) = (dir.path().join("p.md"), dir.path().join("gpt2"));
        let all = [measured("inference", 1, "2026-12-31 10:00", "s", vec![row("quantlab", "float32", 1, 200.0, 10.0)])];
        fs::write(&page, "before\n<!-- sweep: other -->\nx\n<!-- end -->\n").unwrap();
        let error = format!("{:#}", write(&all, &folder, &page).unwrap_err());
        assert!(error.contains("has no place for gpt2"), "{error}");
        let around = |inner: &str| format!("before\n<!-- sweep: gpt2 -->\n{inner}<!-- end -->\nafter\n<!-- end -->\n");
        fs::write(&page, around("old\n")).unwrap();
        write(&all, &folder, &page).unwrap();
        assert_eq!(fs::read_to_string(&page).unwrap(), around(&tables(&all)));
        assert!(write(&[], &folder, &page).is_err());
    }
}

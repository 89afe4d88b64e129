//! `cargo lab cards`: the machines of a class beside each other, from the cards that lessons leave in `results`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use crate::grade::{beside, csv_lines, read_regular};
use crate::home::write_atomically;
use crate::ui::{plain, shortened};

/// What a lesson calls its card.
const CARD: &str = "card.json";
/// A lesson's has five figures, and a picture of less than a MB.
const MAX_BYTES: u64 = 5 << 20;
const MAX_FIGURES: usize = 50;
/// Characters of a text on the page; the CSV has all of it.
const LONGEST_TEXT: usize = 80;

/// A card, as far as a comparison needs it. (`quantlab_course::MachineCard` writes it; earlier versions wrote less.)
#[derive(Debug, Deserialize)]
struct Card {
    lesson: u32,
    title: String,
    machine: String,
    memory_gib: Option<f64>,
    system: Option<String>,
    model: Option<String>,
    date: Option<String>,
    numbers: Vec<Figure>,
}

#[derive(Debug, Deserialize)]
struct Figure {
    name: String,
    /// `None` where it was not measured.
    value: Option<f64>,
    unit: String,
}

/// What was found below a folder.
#[derive(Debug, Default)]
struct Found {
    /// Whose card it is, where it lies, and the card; by these.
    cards: Vec<(String, String, Card)>,
    /// A file, and why it is left out.
    left_out: Vec<(String, String)>,
}

/// Writes the page and the table of all cards below a folder: `cards.html` and `cards.csv` in `output`.
pub fn cards(folder: &Path, output: Option<&Path>) -> Result<()> {
    if !folder.is_dir() {
        bail!("{} is not a folder\n  try: the folder that holds STUDENT/LESSON/results/{CARD}", folder.display());
    }
    let found = find(folder);
    for (file, why) in &found.left_out {
        eprintln!("left out: {}: {}", plain(file), plain(why));
    }
    ensure!(
        !found.cards.is_empty(),
        "there is no card ({CARD}) in {}\n  try: the folder of the lessons that came back, with their `results`",
        folder.display()
    );
    let output = output.map_or_else(|| beside(folder, "cards"), Path::to_owned);
    write_atomically(&output.join("cards.csv"), csv(&found).as_bytes())?;
    write_atomically(&output.join("cards.html"), page(&found).as_bytes())?;
    println!("{} cards in {}", found.cards.len(), output.join("cards.html").display());
    Ok(())
}

fn find(folder: &Path) -> Found {
    let mut files = Vec::new();
    find_cards(folder, &mut files);
    let mut found = Found::default();
    for file in files {
        let inner = file.strip_prefix(folder).unwrap_or(&file);
        let shown = inner.to_string_lossy().into_owned();
        match read(&file) {
            Ok(card) => found.cards.push((owner(inner, folder), shown, card)),
            Err(error) => found.left_out.push((shown, format!("{error:#}"))),
        }
    }
    found.cards.sort_by(|a, b| (&a.0, &a.1).cmp(&(&b.0, &b.1)));
    found.left_out.sort();
    found
}

/// All cards below a folder, and what is called like one; links to folders are not followed, for they may lead anywhere.
fn find_cards(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            find_cards(&entry.path(), found);
        } else if entry.file_name() == CARD {
            found.push(entry.path());
        }
    }
}

fn read(file: &Path) -> Result<Card> {
    let card: Card = serde_json::from_slice(&read_regular(file, MAX_BYTES)?).context("not a card, or damaged")?;
    match card.numbers.len() {
        number if number > MAX_FIGURES => bail!("it has {number} figures, so it is not read"),
        _ => Ok(card),
    }
}

/// The first folder below the one that was given, or that itself: `smith/01-latency/results/card.json` is smith's.
fn owner(inner: &Path, folder: &Path) -> String {
    let first = inner.iter().next().filter(|first| *first != "results" && *first != CARD);
    let own = || folder.canonicalize().ok().and_then(|folder| Some(folder.file_name()?.to_owned()));
    first.map(ToOwned::to_owned).or_else(own).unwrap_or_default().to_string_lossy().into_owned()
}

/// A line for each machine and figure.
fn csv(found: &Found) -> String {
    let head = ["who", "lesson", "figure", "value", "unit", "model", "machine", "memory_gib", "system", "date", "file"];
    let lines = found.cards.iter().flat_map(|(who, file, card)| {
        card.numbers.iter().map(move |figure| {
            let number = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
            let text = |text: &Option<String>| text.clone().unwrap_or_default();
            [
                who.clone(),
                card.lesson.to_string(),
                figure.name.clone(),
                number(figure.value),
                figure.unit.clone(),
                text(&card.model),
                card.machine.clone(),
                number(card.memory_gib),
                text(&card.system),
                text(&card.date),
                file.clone(),
            ]
        })
    });
    csv_lines(&head, lines)
}

const HEAD: &str = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">\
<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\
<meta name=\"viewport\" content=\"width=device-width\"><title>Machines beside each other</title><style>\n\
:root { color-scheme: light dark }\n\
body { font-family: sans-serif; margin: 1em auto; max-width: 56em; padding: 0 1em; overflow-wrap: anywhere }\n\
table { border-collapse: collapse; width: 100%; table-layout: fixed; margin: 1em 0 }\n\
caption, th { text-align: left; font-weight: bold } small { display: block; opacity: 0.7 }\n\
td, th { padding: 0.2em 0.8em 0.2em 0; vertical-align: top }\n\
.value { text-align: right; width: 5em } .bar div { background: #4477aa; height: 0.9em; margin-top: 0.15em }\n\
</style><h1>Machines beside each other</h1>\n";

/// For people: of each figure, all machines; then the machines themselves.
fn page(found: &Found) -> String {
    let mut page = HEAD.to_owned();
    let mut lessons: BTreeMap<u32, Vec<(&str, &Card)>> = BTreeMap::new();
    for (who, _, card) in &found.cards {
        lessons.entry(card.lesson).or_default().push((who, card));
    }
    for (lesson, cards) in lessons {
        // Writing to a string cannot fail.
        let _ = writeln!(page, "<h2>Lesson {lesson}: {}</h2>", shown(most_frequent(&cards)));
        let mut figures: Vec<((&str, &str), Vec<Row>)> = Vec::new();
        for (who, card) in cards {
            for Figure { name, value, unit } in &card.numbers {
                let key = (name.as_str(), unit.as_str());
                let model = card.model.as_deref().unwrap_or_default();
                let row = Row { who, model, value: *value };
                match figures.iter_mut().find(|(other, _)| *other == key) {
                    Some((_, rows)) => rows.push(row),
                    None => figures.push((key, vec![row])),
                }
            }
        }
        figures.into_iter().for_each(|((name, unit), rows)| page.push_str(&figure_table(name, unit, rows)));
    }
    page.push_str("<h2>The machines</h2><table>\n");
    for (who, _, Card { machine, memory_gib, system, lesson, date, .. }) in &found.cards {
        let memory = memory_gib.map(|gib| format!("{} GiB of memory", three_digits(gib)));
        let date = date.as_deref().map_or_else(String::new, |date| format!(", {}", shown(date)));
        let about = [Some(machine), memory.as_ref(), system.as_ref()].into_iter().flatten().map(|text| shown(text));
        let _ = writeln!(
            page,
            "<tr><td>{}<small>lesson {lesson}{date}</small></td><td>{}</td></tr>",
            shown(who),
            about.collect::<Vec<_>>().join("<br>")
        );
    }
    page.push_str("</table>\n");
    if !found.left_out.is_empty() {
        page.push_str("<h2>Left out</h2><ul>\n");
        for (file, why) in &found.left_out {
            let _ = writeln!(page, "<li>{}: {}</li>", shown(file), shown(why));
        }
        page.push_str("</ul>\n");
    }
    page + "</html>\n"
}

/// What the page shows of a machine's figure.
struct Row<'a> {
    who: &'a str,
    model: &'a str,
    value: Option<f64>,
}

/// All machines' values of one figure, the largest first, each with a bar.
fn figure_table(name: &str, unit: &str, mut rows: Vec<Row>) -> String {
    let size = |row: &Row| row.value.unwrap_or(f64::NEG_INFINITY);
    rows.sort_by(|a, b| size(b).total_cmp(&size(a)));
    let most = rows.first().map_or(0.0, size);
    let unit = if unit.is_empty() { String::new() } else { format!(" ({})", shown(unit)) };
    let mut table = format!("<table><caption>{}{unit}</caption>\n", shown(name));
    for Row { who, model, value } in rows {
        let percent = value.filter(|value| *value > 0.0).map_or(0.0, |value| 100.0 * value / most);
        let value = value.map_or_else(|| "not measured".to_owned(), three_digits);
        let _ = writeln!(
            table,
            "<tr><td>{}<small>{}</small></td><td class=\"value\">{value}</td>\
             <td class=\"bar\"><div style=\"width: {percent:.1}%\"></div></td></tr>",
            shown(who),
            shown(model)
        );
    }
    table + "</table>\n"
}

/// The title that most cards of a lesson have: one that somebody changed names no lesson of the class.
fn most_frequent<'a>(cards: &[(&str, &'a Card)]) -> &'a str {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    cards.iter().for_each(|(_, card)| *counts.entry(&card.title).or_default() += 1);
    counts.into_iter().max_by_key(|(_, count)| *count).map_or("", |(title, _)| title)
}

fn three_digits(value: f64) -> String {
    match value.abs() {
        size if size != 0.0 && !(1e-3..1e6).contains(&size) => format!("{value:.2e}"),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 || size == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

/// A text of somebody else's as the page may have it.
fn shown(text: &str) -> String {
    let cut = shortened(&plain(text), LONGEST_TEXT);
    cut.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(folder: &Path, path: &str, text: &str) {
        write_atomically(&folder.join(path), text.as_bytes()).unwrap();
    }

    fn card(lesson: u32, title: &str, name: &str, value: &str) -> String {
        format!(
            r#"{{"lesson":{lesson},"title":"{title}","machine":"x86, 2 threads","memory_gib":15.5,"model":"m",
            "numbers":[{{"name":"{name}","value":{value},"unit":"tokens/s"}}],"picture":null}}"#
        )
    }

    #[test]
    fn machines_stand_beside_each_other() {
        let class = tempfile::tempdir().unwrap();
        put(class.path(), "jones/01-a/results/card.json", &card(1, "Latency", "decode", "57.123"));
        put(class.path(), "smith/results/card.json", &card(1, "Latency", "decode", "114.2"));
        put(class.path(), "smith/x/card.json", &card(1, "My own", "decode", "null"));
        put(class.path(), "results/card.json", &card(3, "Perplexity", "perplexity", "-1"));
        cards(class.path(), Some(&class.path().join("out"))).unwrap();
        let [page, csv] =
            ["cards.html", "cards.csv"].map(|name| fs::read_to_string(class.path().join("out").join(name)).unwrap());
        let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text}: {page}"));
        assert!(
            at("Lesson 1: Latency<") < at(">114<") && at(">114<") < at(">57.1<") && at(">57.1<") < at("not measured")
        );
        assert!(at("width: 50.0%") < at("Lesson 3: Perplexity") && at(">-1.00<") < at("The machines"));
        assert!(
            page.contains("<td>x86, 2 threads<br>15.5 GiB of memory</td>") && page.matches("<caption>").count() == 2,
            "{page}"
        );
        let own = class.path().file_name().unwrap().to_str().unwrap();
        assert_eq!(csv.lines().count(), 5);
        assert!(
            csv.contains("\njones,1,decode,57.123,tokens/s,m,\"x86, 2 threads\",15.5,,,jones/01-a/results/card.json\n"),
            "{csv}"
        );
        // A number, and no formula.
        assert!(csv.contains(&format!("\n{own},3,perplexity,-1,")), "{csv}");
    }

    #[test]
    fn hostile_cards_are_named_or_escaped() {
        let class = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| put(class.path(), path, text);
        put("<img src=x onerror=alert(1)>/card.json", &card(1, "</h2><script>", "=1+1", "1"));
        put("big/card.json", &" ".repeat(MAX_BYTES as usize + 1));
        put("broken/card.json", "{\"lesson\":");
        put("deep/card.json", &"[".repeat(100_000));
        put("inf/card.json", &card(1, "t", "n", "1e999"));
        put("old/card.json", r#"{"lesson":4294967295,"title":"","machine":"","numbers":[]}"#);
        let figure = r#"{"name":"n","value":1,"unit":""}"#;
        let many = vec![figure; MAX_FIGURES + 1].join(",");
        put("many/card.json", &format!(r#"{{"lesson":1,"title":"","machine":"","numbers":[{many}]}}"#));
        std::os::unix::fs::symlink("/etc/hostname", class.path().join("big/../link")).unwrap();
        fs::create_dir(class.path().join("linked")).unwrap();
        std::os::unix::fs::symlink("../broken/card.json", class.path().join("linked/card.json")).unwrap();
        std::os::unix::fs::symlink(class.path(), class.path().join("linked/again")).unwrap();
        let found = find(class.path());
        let left_out: Vec<&str> = found.left_out.iter().map(|(file, _)| file.split_once('/').unwrap().0).collect();
        assert_eq!(left_out, ["big", "broken", "deep", "inf", "linked", "many"]);
        let page = page(&found);
        assert!(!page.contains("<script") && !page.contains("<img") && page.contains("&lt;img src=x"), "{page}");
        assert!(csv(&found).contains(",'=1+1,"), "{}", csv(&found));
        assert!(
            page.contains("big/card.json: it has 5 MB") && page.contains("linked/card.json: it is a link"),
            "{page}"
        );
    }

    #[test]
    fn a_folder_without_cards_says_what_to_give() {
        let empty = tempfile::tempdir().unwrap();
        assert!(cards(empty.path(), None).unwrap_err().to_string().contains("there is no card"));
        assert!(cards(&empty.path().join("none"), None).unwrap_err().to_string().contains("not a folder"));
    }
}

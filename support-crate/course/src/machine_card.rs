//! What a learner keeps of a lesson: five numbers of their own machine and a picture, on one page for the whole course.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use quantlab::error::{Error, Result};
use quantlab::measure::threads;
use quantlab::report::{escape_html, show, significant, svg_data_uri};
use serde::{Deserialize, Serialize};

/// Where a lesson keeps its card, beside the notebook.
const CARD: &str = "results/card.json";
/// The page of all cards, beside the lessons' folders.
const PAGE: &str = "results/my-machine.html";

/// The figures of one lesson on one machine. [`keep`](Self::keep) writes them into the lesson's `results`, and makes a page
/// of all lessons' cards anew, which needs no other file and can be handed around: so that a class can compare machines.
///
/// ```no_run
/// use quantlab_course::MachineCard;
///
/// let card = MachineCard::new(1, "Latency and precision").number("decode, float32", Some(57.1), "tokens/s").keep()?;
/// # Ok::<(), quantlab::error::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MachineCard {
    lesson: u32,
    title: String,
    /// Processor and threads.
    machine: String,
    numbers: Vec<Figure>,
    /// An SVG.
    picture: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Figure {
    name: String,
    /// `None` as long as it was not measured.
    value: Option<f64>,
    unit: String,
}

impl MachineCard {
    /// A card without numbers, of the machine that this runs on.
    pub fn new(lesson: u32, title: impl Into<String>) -> Self {
        let machine = format!("{}, {} threads", processor(), threads());
        Self { lesson, title: title.into(), machine, numbers: Vec::new(), picture: None }
    }

    /// Adds a number; `None`, or one that is not finite, was not measured.
    pub fn number(mut self, name: impl Into<String>, value: impl Into<Option<f64>>, unit: impl Into<String>) -> Self {
        let value = value.into().filter(|value| value.is_finite());
        self.numbers.push(Figure { name: name.into(), value, unit: unit.into() });
        self
    }

    /// The picture, as an SVG: `plot.to_svg()?`.
    pub fn picture(mut self, svg: impl Into<String>) -> Self {
        self.picture = Some(svg.into());
        self
    }

    /// Writes the card, and the page of all cards.
    ///
    /// # Errors
    /// A card that cannot be written. (A page that cannot, where the folder above is not the learner's, is left out.)
    pub fn keep(self) -> Result<Self> {
        self.keep_in(Path::new("."))
    }

    fn keep_in(self, lesson: &Path) -> Result<Self> {
        let path = lesson.join(CARD);
        let written =
            fs::create_dir_all(lesson.join("results")).and_then(|()| fs::write(&path, serde_json::to_string(&self)?));
        written.map_err(|error| Error::from(error).context(format!("cannot write {}", path.display())))?;
        let page = lesson.join("..").join(PAGE);
        if page.parent().is_some_and(|folder| fs::create_dir_all(folder).is_ok()) {
            let _ = fs::write(&page, page_of(&cards(&lesson.join(".."))));
        }
        Ok(self)
    }

    /// Shows the card as a notebook cell's value.
    pub fn evcxr_display(&self) {
        show(&self.to_string(), &self.html());
    }

    fn html(&self) -> String {
        let row = |Figure { name, value, unit }: &Figure| {
            let value = value.map_or_else(|| "not measured".to_owned(), |value| significant(value, 3));
            format!(
                "<tr><td>{}</td><td style=\"text-align: right\"><b>{value}</b></td><td>{}</td></tr>",
                escape_html(name),
                escape_html(unit)
            )
        };
        let picture = self.picture.as_deref().map(|svg| {
            format!("<img alt=\"\" style=\"max-width: 100%; margin-top: 0.6em\" src=\"{}\">", svg_data_uri(svg))
        });
        format!(
            "<div style=\"border: 1px solid #8a8f98; border-radius: 6px; padding: 0.6em 1em; max-width: 46em\">\
             <div><b>Lesson {}: {}</b></div><div style=\"opacity: 0.7\">{}</div><table>{}</table>{}</div>",
            self.lesson,
            escape_html(&self.title),
            escape_html(&self.machine),
            self.numbers.iter().map(row).collect::<String>(),
            picture.unwrap_or_default(),
        )
    }
}

impl std::fmt::Display for MachineCard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Lesson {}: {}\n{}", self.lesson, self.title, self.machine)?;
        self.numbers.iter().try_for_each(|Figure { name, value, unit }| match value {
            Some(value) => write!(f, "\n  {name}: {} {unit}", significant(*value, 3)),
            None => write!(f, "\n  {name}: not measured"),
        })
    }
}

/// The cards of the lessons in a folder, by number, and the names of files that are none.
fn cards(lessons: &Path) -> (Vec<MachineCard>, Vec<PathBuf>) {
    let (mut cards, mut damaged) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(lessons).into_iter().flatten().flatten() {
        let path = entry.path().join(CARD);
        let Ok(text) = fs::read(&path) else { continue };
        match serde_json::from_slice::<MachineCard>(&text) {
            Ok(card) => cards.push(card),
            Err(_) => damaged.push(path),
        }
    }
    cards.sort_by_key(|card| card.lesson);
    damaged.sort();
    (cards, damaged)
}

fn page_of((cards, damaged): &(Vec<MachineCard>, Vec<PathBuf>)) -> String {
    let mut page = String::from(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>My machine</title><style>:root { color-scheme: light dark } body { font-family: sans-serif; margin: 1em \
         auto; max-width: 48em; padding: 0 1em } body > div { margin: 1em 0 } td { padding: 0.1em 0.8em 0.1em 0 } \
         img { background: white }</style><h1>My machine</h1>\n",
    );
    cards.iter().for_each(|card| page.push_str(&card.html()));
    for path in damaged {
        let _ = write!(page, "<p>{} is no card, or damaged.</p>", escape_html(&path.display().to_string()));
    }
    page + "</html>\n"
}

/// The processor's name, as far as the system tells it.
fn processor() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let value = |key: &str| {
        let line = info.lines().find(|line| line.starts_with(key))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    value("model name").or_else(|| value("Model")).unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cards_of_all_lessons_come_to_one_page() {
        let course = tempfile::tempdir().unwrap();
        let keep = |name: &str, card: MachineCard| {
            let lesson = course.path().join(name);
            fs::create_dir_all(&lesson).unwrap();
            card.keep_in(&lesson).unwrap()
        };
        let second = MachineCard::new(2, "int8 & more").number("speed", f64::NAN, "x");
        let svg = "<svg onload=\"alert(1)\"></svg>";
        let first = MachineCard::new(1, "latency").number("decode <b>", 12.345, "tokens/s").picture(svg);
        keep("02-b", second);
        let damaged = course.path().join("03-c/results");
        fs::create_dir_all(&damaged).unwrap();
        fs::write(damaged.join("card.json"), "{").unwrap();
        let first = keep("01-a", first);
        let page = fs::read_to_string(course.path().join(PAGE)).unwrap();
        let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text}: {page}"));
        assert!(at("Lesson 1: latency") < at("Lesson 2: int8 &amp; more") && at("is no card") > at("not measured"));
        assert!(at("decode &lt;b&gt;") < at("<b>12.3</b>"));
        assert!(!page.contains("<svg") && page.contains("data:image/svg+xml"), "a picture runs no script");
        assert!(first.to_string().ends_with("\n  decode <b>: 12.3 tokens/s"), "{first}");
        assert!(first.machine.ends_with("threads"));
    }

    #[test]
    fn where_the_page_cannot_be_written_the_card_is_kept_all_the_same() {
        let course = tempfile::tempdir().unwrap();
        fs::write(course.path().join("results"), "a file").unwrap();
        let lesson = course.path().join("01-a");
        fs::create_dir_all(&lesson).unwrap();
        MachineCard::new(1, "a").keep_in(&lesson).unwrap();
        assert!(lesson.join(CARD).is_file());
    }
}

//! What a learner keeps of a lesson: five numbers of their own machine and a picture, on one page for the whole course.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use quantlab::error::{Error, Result};
use quantlab::measure::threads;
use quantlab::report::{escape_html, show, significant, svg_data_uri};
use serde::{Deserialize, Serialize};

/// Where a lesson keeps its card, beside the notebook.
const CARD: &str = "results/card.json";
/// The page of all cards, beside the lessons' folders; in the lesson's own, where that is read-only.
const PAGE: &str = "results/my-machine.html";

/// The figures of one lesson on one machine. [`keep`](Self::keep) writes them into the lesson's `results`, and makes a page
/// of all lessons' cards anew, which needs no other file and can be handed around. `cargo lab cards` puts those of a class
/// beside each other.
///
/// ```no_run
/// use quantlab_course::MachineCard;
///
/// let card = MachineCard::new(1, "Latency and precision")
///     .model("smollm2:float32")
///     .number("decode, float32", Some(57.1), "tokens/s")
///     .keep()?;
/// # Ok::<(), quantlab::error::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MachineCard {
    lesson: u32,
    title: String,
    /// Processor and threads.
    machine: String,
    /// All of the machine's. (Cards of earlier versions lack this and the next three.)
    #[serde(default)]
    memory_gib: Option<f64>,
    #[serde(default)]
    system: Option<String>,
    /// What the figures were measured with, unless a figure names another.
    #[serde(default)]
    model: Option<String>,
    /// Of the measurement, in UTC: `2026-11-25`.
    #[serde(default)]
    date: Option<String>,
    numbers: Vec<Figure>,
    /// An SVG.
    picture: Option<String>,
    /// Where the page of all cards was written, as seen from the lesson.
    #[serde(skip)]
    page: Option<PathBuf>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Figure {
    name: String,
    /// `None` as long as it was not measured.
    value: Option<f64>,
    unit: String,
}

impl MachineCard {
    /// A card without numbers, of the machine that this runs on, today.
    pub fn new(lesson: u32, title: impl Into<String>) -> Self {
        Self {
            lesson,
            title: title.into(),
            machine: format!("{}, {} threads", processor(), threads()),
            memory_gib: memory_gib(),
            system: Some(operating_system()),
            model: None,
            date: SystemTime::now().duration_since(UNIX_EPOCH).ok().map(|since| date(since.as_secs() / 86_400)),
            numbers: Vec::new(),
            picture: None,
            page: None,
        }
    }

    /// The model that the figures are of, by its id. (One of another model says so in its name.)
    pub fn model(mut self, id: impl Into<String>) -> Self {
        self.model = Some(id.into());
        self
    }

    /// Adds a number; `None`, or one that is not finite, was not measured.
    pub fn number(mut self, name: impl Into<String>, value: impl Into<Option<f64>>, unit: impl Into<String>) -> Self {
        let value = value.into().filter(|value| value.is_finite());
        self.numbers.push(Figure { name: name.into(), value, unit: unit.into() });
        self
    }

    /// The picture, as an SVG: `plot.to_svg()?`; an empty text is none.
    pub fn picture(mut self, svg: impl Into<String>) -> Self {
        self.picture = Some(svg.into()).filter(|svg| !svg.is_empty());
        self
    }

    /// Writes the card, and the page of all cards: beside the lessons' folders, or in this lesson's `results` where that
    /// cannot be written.
    ///
    /// # Errors
    /// A card or a page that cannot be written.
    pub fn keep(self) -> Result<Self> {
        self.keep_in(Path::new("."))
    }

    fn keep_in(mut self, lesson: &Path) -> Result<Self> {
        let write = |path: &Path, text: &str| {
            fs::create_dir_all(path.parent().unwrap_or(lesson))
                .and_then(|()| fs::write(path, text))
                .map_err(|error| Error::from(error).context(format!("cannot write {}", path.display())))
        };
        write(&lesson.join(CARD), &serde_json::to_string(&self)?)?;
        let page = page_of(&cards(&lesson.join("..")));
        let above = Path::new("..").join(PAGE);
        self.page = Some(match write(&lesson.join(&above), &page) {
            Ok(()) => above,
            Err(_) => write(&lesson.join(PAGE), &page).map(|()| PathBuf::from(PAGE))?,
        });
        Ok(self)
    }

    /// What the figures are of: the machine, its memory and system, the model and the date, as far as the card has them.
    fn measured_on(&self) -> String {
        let memory = self.memory_gib.map(|gib| format!("{} GiB of memory", significant(gib, 3)));
        let parts = [Some(self.machine.clone()), memory, self.system.clone(), self.model.clone(), self.date.clone()];
        parts.into_iter().flatten().collect::<Vec<_>>().join(" | ")
    }

    fn page_note(&self) -> Option<String> {
        Some(format!("All lessons' cards on one page: {}", self.page.as_ref()?.display()))
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
             <div><b>Lesson {}: {}</b></div><div style=\"opacity: 0.7\">{}</div><table>{}</table>{}{}</div>",
            self.lesson,
            escape_html(&self.title),
            escape_html(&self.measured_on()),
            self.numbers.iter().map(row).collect::<String>(),
            picture.unwrap_or_default(),
            self.page_note().map(|note| format!("<div style=\"opacity: 0.7\">{note}</div>")).unwrap_or_default(),
        )
    }
}

impl std::fmt::Display for MachineCard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Lesson {}: {}\n{}", self.lesson, self.title, self.measured_on())?;
        self.numbers.iter().try_for_each(|Figure { name, value, unit }| match value {
            Some(value) => write!(f, "\n  {name}: {}", format!("{} {unit}", significant(*value, 3)).trim_end()),
            None => write!(f, "\n  {name}: not measured"),
        })?;
        self.page_note().map_or(Ok(()), |note| write!(f, "\n{note}"))
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
        page += &format!("<p>{} is no card, or damaged.</p>", escape_html(&path.display().to_string()));
    }
    page + "</html>\n"
}

/// The processor's name, as far as the system tells it.
fn processor() -> String {
    let value = |key| value_in("/proc/cpuinfo", key, ':');
    value("model name").or_else(|| value("Model")).unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

/// All of the machine's memory.
fn memory_gib() -> Option<f64> {
    let kib: f64 = value_in("/proc/meminfo", "MemTotal", ':')?.strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib / f64::from(1 << 20))
}

/// The system's name and the architecture: `Debian GNU/Linux 12 (bookworm), x86_64`.
fn operating_system() -> String {
    let name = value_in("/etc/os-release", "PRETTY_NAME", '=').map(|name| name.trim_matches('"').to_owned());
    format!("{}, {}", name.unwrap_or_else(|| std::env::consts::OS.to_owned()), std::env::consts::ARCH)
}

/// What a file of lines says of a key.
fn value_in(file: &str, key: &str, separator: char) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let mut pairs = text.lines().filter_map(|line| line.split_once(separator));
    pairs.find(|(name, _)| name.trim() == key).map(|(_, value)| value.trim().to_owned())
}

/// A day after 1970-01-01, by the calendar.
///
/// Source: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`, for days that are not
/// negative. A year begins with March, so that a leap day is its last one.
fn date(days: u64) -> String {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year_of_era + 400 * era + u64::from(month <= 2);
    format!("{year}-{month:02}-{day:02}")
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
        let first = MachineCard::new(1, "latency").model("a<i>").number("decode <b>", 12.345, "tokens/s").picture(svg);
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
        let text = first.to_string();
        assert!(
            text.contains("\n  decode <b>: 12.3 tokens/s\nAll lessons' cards on one page: ../results/my-m"),
            "{text}"
        );
        assert!(text.contains(" threads | ") && text.contains(" | a<i> | 20") && page.contains("a&lt;i&gt;"), "{text}");
        assert!(first.memory_gib.is_none_or(|gib| (0.1..1e6).contains(&gib)) && first.html().contains("../results"));
    }

    #[test]
    fn a_card_of_an_earlier_version_is_read() {
        let text = r#"{"lesson":3,"title":"Perplexity","machine":"x, 2 threads","numbers":
            [{"name":"a","value":1.5,"unit":""},{"name":"b","value":null,"unit":"s"}],"picture":null}"#;
        let card: MachineCard = serde_json::from_str(text).unwrap();
        assert_eq!(card.to_string(), "Lesson 3: Perplexity\nx, 2 threads\n  a: 1.50\n  b: not measured");
        assert_eq!(card.date, None);
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        let dates = [0, 59, 11_016, 11_017, 20_782, 47_540].map(date);
        assert_eq!(dates, ["1970-01-01", "1970-03-01", "2000-02-29", "2000-03-01", "2026-11-25", "2100-02-28"]);
        assert_eq!(date(47_541), "2100-03-01");
    }

    #[test]
    fn where_the_folder_above_cannot_be_written_the_page_is_in_the_lesson() {
        let course = tempfile::tempdir().unwrap();
        fs::write(course.path().join("results"), "a file").unwrap();
        let lesson = course.path().join("01-a");
        fs::create_dir_all(&lesson).unwrap();
        let card = MachineCard::new(1, "a").keep_in(&lesson).unwrap();
        assert!(lesson.join(CARD).is_file());
        assert!(fs::read_to_string(lesson.join(PAGE)).unwrap().contains("Lesson 1: a"));
        assert!(card.to_string().ends_with("one page: results/my-machine.html"), "{card}");
    }
}

//! A few hundred plain facts, taught in several wordings and asked afterwards in one of them.

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::index;
use serde::{Deserialize, Serialize};

use super::facts_data::{ANIMALS, COLORS, COUNTRIES, DAYS, MONTHS, ONES, OPPOSITES, PAST_TENSES, PLURALS, TENS};

/// The largest number whose successor is asked for.
const LAST_NUMBER: usize = 30;
/// The largest summand of the sums.
const LAST_SUMMAND: usize = 6;

/// One question of the quality measure: how the sentence starts and how it must go on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact {
    /// The start of the sentence, without a space at the end.
    pub prompt: String,
    /// What follows, starting with a space.
    pub answer: String,
}

/// A fact with the other wordings that teach it.
struct Lesson {
    fact: Fact,
    /// Complete sentences.
    wordings: Vec<String>,
}

/// All facts, by subject.
pub struct Facts {
    subjects: Vec<Vec<Lesson>>,
    lists: Vec<String>,
}

impl Facts {
    /// Builds every fact from the tables.
    pub fn new() -> Self {
        Self {
            subjects: vec![
                capitals(),
                continents(),
                opposites(),
                young(),
                sounds(),
                colors(),
                plurals(),
                past_tenses(),
                successors(),
                sums(),
                neighbors("day", DAYS),
                neighbors("month", MONTHS),
            ],
            lists: lists(),
        }
    }

    /// The questions, in the order of the tables.
    pub fn questions(&self) -> Vec<Fact> {
        let lessons = self.subjects.iter().flatten();
        lessons.map(|lesson| lesson.fact.clone()).collect()
    }

    /// Writes a few facts one behind the other: a part of a table in its order, or some of one subject,
    /// or some of all. None comes twice in a document, and each is taught equally often.
    pub fn document(&self, rng: &mut StdRng) -> String {
        if rng.random_bool(0.03) {
            return self.lists[rng.random_range(0..self.lists.len())].clone();
        }
        let separator = if rng.random_bool(0.3) { "\n" } else { " " };
        let total: usize = self.subjects.iter().map(Vec::len).sum();
        let (subject, start) = self.find(rng.random_range(0..total));
        let sentences: Vec<String> = match rng.random_range(0..100) {
            // In order and in one wording, so that a list of facts goes on with the next one.
            0..40 => {
                let following = subject.iter().cycle().skip(start);
                let count = rng.random_range(3..12).min(subject.len());
                following.take(count).map(Lesson::statement).collect()
            }
            40..65 => {
                let count = rng.random_range(2..9).min(subject.len());
                let chosen = index::sample(rng, subject.len(), count);
                chosen.iter().map(|number| subject[number].sentence(rng)).collect()
            }
            _ => {
                let count = rng.random_range(2..9);
                let chosen = index::sample(rng, total, count);
                let find = |number| {
                    let (subject, place) = self.find(number);
                    &subject[place]
                };
                chosen.iter().map(|number| find(number).sentence(rng)).collect()
            }
        };
        sentences.join(separator)
    }

    /// The subject that the fact with this number belongs to, and its place there.
    fn find(&self, mut number: usize) -> (&[Lesson], usize) {
        for subject in &self.subjects {
            if number < subject.len() {
                return (subject, number);
            }
            number -= subject.len();
        }
        (&self.subjects[0], 0)
    }
}

impl Lesson {
    fn new(prompt: String, answer: &str, wordings: Vec<String>) -> Self {
        let answer = format!(" {answer}");
        Self { fact: Fact { prompt, answer }, wordings }
    }

    /// The fact in the wording that is asked for.
    fn statement(&self) -> String {
        format!("{}{}.", self.fact.prompt, self.fact.answer)
    }

    /// The wording that is asked for comes in two of three cases.
    fn sentence(&self, rng: &mut StdRng) -> String {
        if self.wordings.is_empty() || rng.random_bool(0.67) {
            return self.statement();
        }
        self.wordings[rng.random_range(0..self.wordings.len())].clone()
    }
}

fn capitals() -> Vec<Lesson> {
    let lesson = |&(country, capital, _): &(&str, &str, &str)| {
        let wordings = vec![
            format!("{capital} is the capital of {country}."),
            format!("What is the capital of {country}? It is {capital}."),
        ];
        Lesson::new(format!("The capital of {country} is"), capital, wordings)
    };
    COUNTRIES.iter().map(lesson).collect()
}

/// Every second country of an undisputed continent: enough to measure, and capitals stay the larger part.
fn continents() -> Vec<Lesson> {
    let countries = COUNTRIES.iter().filter(|country| !country.2.is_empty());
    let lesson = |&(country, _, continent): &(&str, &str, &str)| {
        let wordings = vec![format!("Where is {country}? {} is in {continent}.", capitalized(country))];
        let prompt = format!("{} is a country in", capitalized(country));
        Lesson::new(prompt, continent, wordings)
    };
    countries.step_by(2).map(lesson).collect()
}

fn opposites() -> Vec<Lesson> {
    let both_ways = OPPOSITES.iter().flat_map(|&(a, b)| [(a, b), (b, a)]);
    let lesson = |(word, opposite): (&str, &str)| {
        let wordings = vec![
            format!("{} is the opposite of {word}.", capitalized(&format!("\"{opposite}\""))),
            format!("What is the opposite of {word}? It is {opposite}."),
        ];
        Lesson::new(format!("The opposite of {word} is"), opposite, wordings)
    };
    both_ways.map(lesson).collect()
}

fn young() -> Vec<Lesson> {
    let lesson = |&(animal, young, _): &(&str, &str, &str)| {
        let prompt = format!("A young {animal} is called {}", article(young));
        let wordings = vec![format!("What is a young {animal} called? It is called {} {young}.", article(young))];
        Lesson::new(prompt, young, wordings)
    };
    ANIMALS.iter().map(lesson).collect()
}

fn sounds() -> Vec<Lesson> {
    let with_sound = ANIMALS.iter().filter(|animal| !animal.2.is_empty());
    let lesson = |&(animal, _, sound): &(&str, &str, &str)| {
        let a_animal = format!("{} {animal}", article(animal));
        let wordings = vec![format!("What does {a_animal} say? It says {sound}.")];
        Lesson::new(format!("{} says", capitalized(&a_animal)), sound, wordings)
    };
    with_sound.map(lesson).collect()
}

fn colors() -> Vec<Lesson> {
    let lesson = |&(thing, color): &(&str, &str)| {
        let wordings = vec![
            format!("What color is {thing}? {} is {color}.", capitalized(thing)),
            format!("{} is {color}.", capitalized(thing)),
        ];
        Lesson::new(format!("The color of {thing} is"), color, wordings)
    };
    COLORS.iter().map(lesson).collect()
}

fn plurals() -> Vec<Lesson> {
    let lesson = |&(word, plural): &(&str, &str)| {
        let wordings = vec![format!("One {word}, many {plural}.")];
        Lesson::new(format!("The plural of {word} is"), plural, wordings)
    };
    PLURALS.iter().map(lesson).collect()
}

fn past_tenses() -> Vec<Lesson> {
    let lesson = |&(verb, past): &(&str, &str)| {
        let wordings = vec![format!("Today I {verb}, yesterday I {past}.")];
        Lesson::new(format!("The past tense of {verb} is"), past, wordings)
    };
    PAST_TENSES.iter().map(lesson).collect()
}

fn successors() -> Vec<Lesson> {
    let lesson = |n: usize| {
        let (number, next) = (number_word(n), number_word(n + 1));
        let wordings = vec![format!("After {number} comes {next}.")];
        Lesson::new(format!("The number after {number} is"), &next, wordings)
    };
    (1..=LAST_NUMBER).map(lesson).collect()
}

fn sums() -> Vec<Lesson> {
    let pairs = (1..=LAST_SUMMAND).flat_map(|a| (1..=LAST_SUMMAND).map(move |b| (a, b)));
    let lesson = |(a, b): (usize, usize)| {
        let (first, second) = (number_word(a), number_word(b));
        let sum = number_word(a + b);
        let wordings = vec![format!("If you add {first} and {second}, you get {sum}.")];
        let prompt = format!("{} plus {second} is", capitalized(&first));
        Lesson::new(prompt, &sum, wordings)
    };
    pairs.map(lesson).collect()
}

/// What comes after and before each of the names, in a circle.
fn neighbors(kind: &str, names: &[&str]) -> Vec<Lesson> {
    let pairs = names.iter().zip(names.iter().cycle().skip(1));
    let lesson = |(name, next): (&&str, &&str)| {
        [
            Lesson::new(format!("The {kind} after {name} is"), next, vec![format!("After {name} comes {next}.")]),
            Lesson::new(format!("The {kind} before {next} is"), name, vec![format!("Before {next} comes {name}.")]),
        ]
    };
    pairs.flat_map(lesson).collect()
}

/// Days, months and numbers said in a row.
fn lists() -> Vec<String> {
    let numbers: Vec<String> = (1..=20).map(number_word).collect();
    vec![
        format!("The days of the week are {}.", enumeration(DAYS)),
        format!("The months of the year are {}.", enumeration(MONTHS)),
        format!("Let us count to twenty: {}.", numbers.join(", ")),
        format!("Let us count to ten: {}.", numbers[..10].join(", ")),
    ]
}

fn enumeration(names: &[&str]) -> String {
    match names.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => names.concat(),
    }
}

/// Spells a number below one hundred.
fn number_word(n: usize) -> String {
    match n {
        0..20 => ONES[n].to_owned(),
        _ if n.is_multiple_of(10) => TENS[n / 10 - 2].to_owned(),
        _ => format!("{}-{}", TENS[n / 10 - 2], ONES[n % 10]),
    }
}

/// `a` or `an` for a word, by the sound it begins with.
pub fn article(word: &str) -> &'static str {
    let silent_h = word.starts_with("honest");
    if silent_h || word.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" }
}

/// Writes the first letter large, skipping an opening quotation mark.
pub fn capitalized(text: &str) -> String {
    let at = text.find(char::is_alphabetic).unwrap_or(0);
    let (mark, rest) = text.split_at(at);
    let mut letters = rest.chars();
    let first = letters.next().map(|c| c.to_ascii_uppercase());
    mark.chars().chain(first).chain(letters).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use rand::SeedableRng;

    use super::*;

    #[test]
    fn there_are_a_few_hundred_facts_and_no_question_is_asked_twice() {
        let questions = Facts::new().questions();
        let prompts: HashSet<&str> = questions.iter().map(|q| q.prompt.as_str()).collect();
        assert_eq!(prompts.len(), questions.len());
        assert!((300..500).contains(&questions.len()), "{}", questions.len());
    }

    #[test]
    fn questions_join_with_their_answers() {
        for question in Facts::new().questions() {
            assert!(!question.prompt.ends_with(' '), "{question:?}");
            assert!(question.answer.starts_with(' '), "{question:?}");
            assert!(question.prompt.is_ascii() && question.answer.is_ascii());
        }
    }

    #[test]
    fn known_facts_are_right() {
        let questions = Facts::new().questions();
        for (prompt, answer) in [
            ("The capital of France is", " Paris"),
            ("The opposite of cold is", " hot"),
            ("The number after twenty-nine is", " thirty"),
            ("Six plus six is", " twelve"),
            ("The day after Sunday is", " Monday"),
            ("The month before January is", " December"),
            ("A young eagle is called an", " eaglet"),
        ] {
            let fact = Fact { prompt: prompt.to_owned(), answer: answer.to_owned() };
            assert!(questions.contains(&fact), "{fact:?}");
        }
    }

    #[test]
    fn no_sentence_comes_twice_in_a_document() {
        let facts = Facts::new();
        for seed in 0..500 {
            let document = facts.document(&mut StdRng::seed_from_u64(seed));
            let sentences: Vec<&str> = document.split_inclusive('.').map(str::trim).collect();
            let different: HashSet<&&str> = sentences.iter().collect();
            assert_eq!(different.len(), sentences.len(), "{document}");
        }
    }

    #[test]
    fn documents_depend_on_the_seed_alone_and_end_as_sentences() {
        let facts = Facts::new();
        let write = |seed| facts.document(&mut StdRng::seed_from_u64(seed));
        for seed in 0..200 {
            let document = write(seed);
            assert_eq!(document, write(seed));
            assert!(document.ends_with('.'), "{document}");
        }
    }
}

//! Short children's stories, put together from sentences with slots.
//!
//! A story has an opening, a plot of several steps and an ending. Every step is chosen from several
//! sentences, and every name, place and thing in them from a list, so that no two stories are likely
//! to be the same, while each single sentence is correct English.

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use super::facts::{article, capitalized};
use super::story_frame::{ENDINGS, MORALS, OPENINGS, SCENERY};
use super::story_plots::PLOTS;
use super::story_words as words;

/// How often a story starts with the words that the lessons use as a prompt.
const FAR_AWAY: f64 = 0.5;
/// The words that the lessons use as a prompt.
const FAR_AWAY_START: &str = "Once upon a time, in a land far, far away,";
/// Other ways to start.
const OTHER_STARTS: &[&str] = &[
    "Once upon a time,",
    "Long, long ago,",
    "A long time ago, when the world was young,",
    "Many years ago,",
    "Once, not so very long ago,",
    "Once upon a time, at the edge of the wide sea,",
    "In the days when animals could speak,",
];

/// Writes one story.
pub fn story(rng: &mut StdRng) -> String {
    let slots = Slots::draw(rng);
    let start = if rng.random_bool(FAR_AWAY) { FAR_AWAY_START } else { pick(OTHER_STARTS, rng) };
    let mut paragraphs = vec![slots.fill(&format!("{start} {}", pick(OPENINGS, rng)))];
    if rng.random_bool(0.7) {
        paragraphs[0].push(' ');
        paragraphs[0].push_str(&slots.fill(pick(SCENERY, rng)));
    }
    let plot = pick(PLOTS, rng);
    // Two or three steps make a paragraph.
    let mut paragraph: Vec<String> = Vec::new();
    for step in plot {
        paragraph.push(slots.fill(pick(step, rng)));
        if paragraph.len() >= 2 && rng.random_bool(0.6) {
            paragraphs.push(paragraph.join(" "));
            paragraph.clear();
        }
    }
    paragraph.push(slots.fill(pick(ENDINGS, rng)));
    if rng.random_bool(0.4) {
        paragraph.push(slots.fill(pick(MORALS, rng)));
    }
    paragraphs.push(paragraph.join(" "));
    paragraphs.join("\n\n")
}

fn pick<T: Copy>(list: &[T], rng: &mut StdRng) -> T {
    *list.choose(rng).expect("the lists are constant and not empty")
}

/// What the slots of one story stand for.
struct Slots(Vec<(&'static str, String)>);

impl Slots {
    fn draw(rng: &mut StdRng) -> Self {
        let hero_is_girl = rng.random_bool(0.5);
        let friend_is_girl = rng.random_bool(0.5);
        let hero = pick(names(hero_is_girl), rng);
        let friend = loop {
            let name = pick(names(friend_is_girl), rng);
            if name != hero {
                break name;
            }
        };
        let kind = pick(words::HERO_KINDS, rng);
        let friend_kind = loop {
            let other = pick(words::FRIEND_KINDS, rng);
            if other != kind {
                break other;
            }
        };
        let trait_word = pick(words::TRAITS, rng);
        let mut slots = vec![
            ("hero", hero.to_owned()),
            ("kind", kind.to_owned()),
            ("a_kind", format!("{} {trait_word} {kind}", article(trait_word))),
            ("friend", friend.to_owned()),
            ("friend_kind", friend_kind.to_owned()),
            ("a_friend", format!("{} {friend_kind}", article(friend_kind))),
            ("place", pick(words::PLACES, rng).to_owned()),
            ("wild", pick(words::WILD_PLACES, rng).to_owned()),
            ("home", pick(words::HOMES, rng).to_owned()),
            ("thing", pick(words::TREASURES, rng).to_owned()),
            ("gift", pick(words::GIFTS, rng).to_owned()),
            ("food", pick(words::FOODS, rng).to_owned()),
            ("flower", pick(words::FLOWERS, rng).to_owned()),
            ("color", pick(words::COLORS, rng).to_owned()),
            ("weather", pick(words::WEATHER, rng).to_owned()),
            ("time", pick(words::TIMES, rng).to_owned()),
            ("number", pick(words::NUMBERS, rng).to_owned()),
            ("time_lower", {
                let time = pick(words::TIMES, rng);
                time[..1].to_ascii_lowercase() + &time[1..]
            }),
        ];
        slots.extend(pronouns(["he", "him", "his", "himself"], hero_is_girl));
        slots.extend(pronouns(["f_he", "f_him", "f_his", "f_self"], friend_is_girl));
        Self(slots)
    }

    /// Replaces every `{slot}`; a capital first letter in the slot makes one in the text.
    fn fill(&self, template: &str) -> String {
        let mut text = template.to_owned();
        for (slot, value) in &self.0 {
            text = text.replace(&format!("{{{slot}}}"), value);
            let large = format!("{{{}}}", capitalized(slot));
            if text.contains(&large) {
                text = text.replace(&large, &capitalized(value));
            }
        }
        text
    }
}

fn names(girl: bool) -> &'static [&'static str] {
    if girl { words::GIRLS } else { words::BOYS }
}

fn pronouns(slots: [&'static str; 4], girl: bool) -> impl Iterator<Item = (&'static str, String)> {
    let words = if girl { ["she", "her", "her", "herself"] } else { ["he", "him", "his", "himself"] };
    slots.into_iter().zip(words.map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use rand::SeedableRng;

    use super::*;

    fn stories(count: u64) -> Vec<String> {
        let write = |seed| story(&mut StdRng::seed_from_u64(seed));
        (0..count).map(write).collect()
    }

    #[test]
    fn no_slot_is_left_open_and_every_story_ends() {
        for text in stories(2_000) {
            assert!(!text.contains(['{', '}', '_']), "{text}");
            assert!(text.ends_with(['.', '!', '"']), "{text}");
            assert!(!text.contains("  "), "{text}");
        }
    }

    #[test]
    fn every_sentence_starts_large() {
        for text in stories(1_000) {
            for sentence in text.split(". ") {
                let first = sentence.chars().find(|c| c.is_alphabetic());
                assert!(first.is_some_and(char::is_uppercase), "{sentence:?}");
            }
        }
    }

    #[test]
    fn articles_fit_their_nouns() {
        let all = stories(1_000);
        for text in &all {
            let words: Vec<&str> = text.split_whitespace().collect();
            for pair in words.windows(2) {
                let vowel = pair[1] == "honest" || pair[1].starts_with(['a', 'e', 'i', 'o', 'u']);
                match pair[0].trim_start_matches('"') {
                    "a" | "A" => assert!(!vowel, "{pair:?}"),
                    "an" | "An" => assert!(vowel || pair[1] == "hour", "{pair:?}"),
                    _ => {}
                }
            }
        }
        assert!(all.iter().any(|text| text.contains(" an honest ")), "the h that is not heard");
    }

    #[test]
    fn half_the_stories_start_with_the_prompt_and_none_repeats() {
        let all = stories(1_000);
        let far_away = all.iter().filter(|s| s.starts_with(FAR_AWAY_START)).count();
        assert!((400..600).contains(&far_away), "{far_away}");
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len());
    }
}

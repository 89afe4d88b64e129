//! The corpus, and texts of different kinds, to see what a perplexity says about each.

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

use quantlab::error::Result;
use quantlab::measure::{Perplexity, PerplexityOptions, perplexity};
use quantlab::model::Loaded;
use quantlab::source::held_out_text;

/// Paragraphs of the corpus are shorter than this, in bytes.
const SHORT: usize = 350;

/// The length in bytes above which a paragraph is long, and how many long paragraphs are taken.
const LONG: usize = 300;
const LONG_PARAGRAPHS: usize = 8;

const HAMLET: &str = "To be, or not to be, that is the question: Whether 'tis nobler in the mind to suffer The slings and \
    arrows of outrageous fortune, Or to take arms against a sea of troubles And by opposing end them.";
const STORY: &str = "Once upon a time there was a little girl who lived near a big forest. One day she found a small bird \
    with a broken wing. She took it home and gave it some water. The bird was happy, and they became good friends.";
const NEWS: &str = "The city council voted on Tuesday to raise parking fees downtown by ten percent. Shop owners say that \
    fewer customers will come, while residents hope for cleaner air and quieter streets in the evening.";
const GERMAN: &str = "Es war einmal ein kleiner Fuchs, der lebte tief im Wald. Eines Tages ging er an den Fluss, um zu \
    trinken, und sah dort einen alten Mann, der in seinem Boot schlief und von der See sang.";
const RANDOM_LETTERS: usize = 300;

/// The first `n` paragraphs of the Rust documentation that the embedded model was not trained on and that are shorter than
/// 350 bytes, in order.
pub fn short_paragraphs(n: usize) -> Vec<&'static str> {
    let paragraphs = held_out_text().split("\n\n").map(str::trim);
    paragraphs.filter(|text| (1..SHORT).contains(&text.len())).take(n).collect()
}

/// How many tokens each text has.
///
/// # Errors
/// Those of the tokenizer.
pub fn token_counts(loaded: &Loaded, texts: &[&str]) -> Result<Vec<usize>> {
    texts.iter().map(|text| Ok(loaded.tokenizer.encode(text)?.len())).collect()
}

/// The texts sorted by their number of tokens.
///
/// # Errors
/// Those of the tokenizer.
pub fn shortest_first<'a>(loaded: &Loaded, texts: &[&'a str]) -> Result<Vec<&'a str>> {
    let mut sorted: Vec<(usize, &str)> = token_counts(loaded, texts)?.into_iter().zip(texts.iter().copied()).collect();
    sorted.sort_by_key(|(tokens, _)| *tokens);
    Ok(sorted.into_iter().map(|(_, text)| text).collect())
}

/// The perplexity of each of the [kinds of text](kinds_of_text).
///
/// # Errors
/// As [`perplexity`].
pub fn perplexity_of_kinds(loaded: &Loaded, corpus: &[&str]) -> Result<Vec<(&'static str, Perplexity)>> {
    let of = |(name, texts): (_, Vec<String>)| Ok((name, perplexity(loaded, &texts, &PerplexityOptions::default())?));
    kinds_of_text(corpus).into_iter().map(of).collect()
}

/// Texts of several kinds, each with its name: the first long paragraphs of `corpus` (more than 300 bytes), the same with
/// their words shuffled, and others that have nothing to do with it. They are the same on every call.
pub fn kinds_of_text(corpus: &[&str]) -> Vec<(&'static str, Vec<String>)> {
    let mut rng = StdRng::seed_from_u64(7);
    let long = corpus.iter().filter(|text| text.len() > LONG).take(LONG_PARAGRAPHS);
    let prose: Vec<String> = long.map(|&text| text.to_owned()).collect();
    let shuffled = prose.iter().map(|text| shuffled(text, &mut rng)).collect();
    let letter = |_| char::from(*b"abcdefghijklmnopqrstuvwxyz ".get(rng.random_range(0..27)).unwrap_or(&b' '));
    let letters = (0..RANDOM_LETTERS).map(letter).collect();
    vec![
        ("Rust docs", prose),
        ("the same, words shuffled", shuffled),
        ("Hamlet", vec![HAMLET.to_owned()]),
        ("a small story", vec![STORY.to_owned()]),
        ("local news", vec![NEWS.to_owned()]),
        ("German", vec![GERMAN.to_owned()]),
        ("random letters", vec![letters]),
    ]
}

fn shuffled(text: &str, rng: &mut StdRng) -> String {
    let mut words: Vec<&str> = text.split_whitespace().collect();
    words.shuffle(rng);
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use quantlab::model::{LoadOptions, load_model};

    #[test]
    fn shuffling_keeps_the_words() {
        let long = "one two three four five six ".repeat(12);
        let kinds = kinds_of_text(&["short", &long]);
        let [(_, prose), (_, mixed), ..] = &kinds[..] else { unreachable!() };
        assert_eq!(*prose, std::slice::from_ref(&long));
        let sorted = |text: &str| {
            let mut words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
            words.sort();
            words
        };
        assert!(mixed[0] != long.trim() && sorted(&mixed[0]) == sorted(&long));
        assert_eq!(kinds, kinds_of_text(&["short", &long]));
    }

    #[test]
    fn sorted_by_tokens_each_text_is_still_there() {
        let loaded = load_model(&["embedded"], &LoadOptions::default()).unwrap();
        let corpus = short_paragraphs(9);
        let sorted = shortest_first(&loaded, &corpus).unwrap();
        let counts = token_counts(&loaded, &sorted).unwrap();
        assert!(counts.is_sorted() && counts[0] > 0 && corpus.len() == 9);
        assert!(corpus.iter().all(|text| text.len() < SHORT && sorted.contains(text)));
    }

    #[test]
    fn random_letters_are_27_characters_of_one_byte() {
        let kinds = kinds_of_text(&[]);
        let text = &kinds[6].1[0];
        assert_eq!((kinds.len(), text.len()), (7, 300));
        assert!(text.bytes().all(|byte| byte == b' ' || byte.is_ascii_lowercase()));
        assert!(kinds[0].1.is_empty());
    }
}

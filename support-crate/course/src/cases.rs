//! Inputs of every kind for the checks, the same ones each time, so that an answer that is right only for some sizes,
//! orders or magnitudes also meets others.

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

use quantlab::model::Device;

/// Not only the first GPU.
pub(super) const DEVICES: [Device; 4] = [Device::Cpu, Device::Cuda(0), Device::Cuda(1), Device::Cuda(7)];

/// Random numbers that are the same each time.
pub(super) fn random(seed: u64) -> StdRng {
    StdRng::seed_from_u64(seed)
}

/// A size from 1 to `most`: small ones are as frequent as large ones.
pub(super) fn size(rng: &mut StdRng, most: usize) -> usize {
    (most as f64).powf(rng.random::<f64>()).round() as usize
}

/// The kinds of [`row`].
pub(super) const KINDS: usize = 6;

/// `n` numbers of one of the [`KINDS`]: nearly equal, evenly spread, a few far above thousands of others, a handful of
/// repeated values, sorted in ascending and in descending order.
pub(super) fn row(rng: &mut StdRng, kind: usize, n: usize) -> Vec<f32> {
    let mut row: Vec<f32> = (0..n).map(|_| rng.random_range(-1.0..1.0)).collect();
    match kind % KINDS {
        0 => row.iter_mut().for_each(|x| *x = 0.7 + 0.01 * *x),
        1 => row.iter_mut().for_each(|x| *x *= 4.0),
        2 => {
            let gap = rng.random_range(8.0..14.0);
            row.iter_mut().take(1 + n / 3000).for_each(|x| *x += gap);
            row.shuffle(rng);
        }
        3 => row.iter_mut().for_each(|x| *x = (2.0 * *x).round()),
        4 => row.sort_by(f32::total_cmp),
        _ => row.sort_by(|a, b| b.total_cmp(a)),
    }
    row
}

/// A prompt that is longer than most, with spaces around it.
pub(super) const LONG_PROMPT: &str = "  In the evening the cat sat at the window, and when the moon rose over the sea it began to sing, and nobody could \
     sleep. In the morning the cat was gone, and so was the boat of the fisher, who had lived in the small house by the sea \
     for as long as anybody could remember. Nobody knew why. In the evening the cat sat at the window again, and the moon \
     rose over the sea, and it began to sing, and nobody could sleep, and so it went on until the king heard of it.\n ";

/// Texts of every kind, in no particular order: from one word to hundreds, some repeated, with spaces and line breaks
/// inside and around, in other scripts, and one word over and over. Each has at least two tokens.
pub(super) fn texts() -> Vec<String> {
    let sentence = "In the evening the cat sat at the window, and when the moon rose over the sea it began to sing. ";
    let texts = [
        "It rained.",
        "  The door stood open. ",
        "the the the the the the the the the the",
        "It rained.",
        "A borrow ends where its value is used for the last time,\n\nand only then may it be changed again.\n",
        "Yes!",
        "Once upon a time there lived a fisher who had a small boat",
        "\u{1f98a} na\u{ef}ve caf\u{e9}, \u{43f}\u{440}\u{438}\u{432}\u{435}\u{442}",
        "Once upon a time there lived a fisher",
        "\tIt rained.",
        "\u{1f98a}",
        "Nobody knew why, and nobody asked.",
        "The end",
    ];
    let mut texts: Vec<String> = texts.map(str::to_owned).to_vec();
    texts.insert(3, sentence.repeat(4));
    texts.insert(7, format!("{sentence}It went on until midnight."));
    texts
}

/// Texts as most functions take them.
pub(super) fn as_strs(texts: &[String]) -> Vec<&str> {
    texts.iter().map(String::as_str).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::{Costs, Machine};

    #[test]
    fn every_text_has_something_to_predict() {
        let tokenizer = Machine::new(Costs::PLAIN).tokenizer().unwrap();
        assert!(texts().iter().all(|text| tokenizer.encode(text).unwrap().len() > 1));
    }

    #[test]
    fn sizes_are_as_small_as_one_and_as_large_as_told() {
        let mut rng = random(1);
        let sizes: Vec<usize> = (0..200).map(|_| size(&mut rng, 1000)).collect();
        assert!(sizes.contains(&1) && sizes.iter().all(|size| (1..=1000).contains(size)));
        assert!(sizes.iter().any(|&size| size > 700));
    }
}

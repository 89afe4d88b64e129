//! `pad_batch`: texts of different lengths become a rectangle.

use rand::Rng;

use super::{PaddedBatch, shown};
use crate::cases::{random, size};
use crate::{Complaint, Score, Verdict, ask};

const HINTS: [&str; 3] = [
    "How long must every row be, so that no text loses a token and no padding is computed in vain?",
    "Find the longest text first. Then make two rows for each text: its ids, filled up to that length, and as many \
     `true` as it has tokens, filled up with `false`.",
    "`let longest = sequences.iter().map(Vec::len).max().unwrap_or(0);`, and for each text `let mut row = ids.clone(); \
     row.resize(longest, 0);` and `let mut tokens = vec![true; ids.len()]; tokens.resize(longest, false);`.",
];

/// The batches to pad. Token 0, the most common padding token, is a token of these texts too, at both ends.
fn batches() -> Vec<Vec<Vec<u32>>> {
    vec![
        // The longest text stands neither first nor last.
        vec![vec![0, 8, 0], vec![9], vec![4, 0, 6, 1, 0], vec![0, 7]],
        vec![vec![3, 0, 5], vec![2, 2]],
        // Nothing to fill up.
        vec![vec![0, 3], vec![5, 5]],
        // A text without tokens.
        vec![vec![], vec![6, 0]],
        // Longer than any limit that someone might think of.
        vec![vec![1; 3], (0..1500).collect()],
        vec![],
        // No token at all.
        vec![vec![], vec![], vec![]],
    ]
}

/// Batches of any size: some texts are repeated, some are empty, and their ids come from a few or from all that exist.
fn any_batches() -> Vec<Vec<Vec<u32>>> {
    let mut rng = random(35);
    let mut text = |number: usize, ids: u32| {
        let n = if number % 5 == 3 { 0 } else { size(&mut rng, 60) };
        (0..n).map(|_| rng.random_range(0..=ids)).collect::<Vec<u32>>()
    };
    [(3, 1), (40, 50_000), (17, u32::MAX), (9, 2), (1, 0), (100, 300)]
        .into_iter()
        .map(|(texts, ids)| {
            let mut batch: Vec<Vec<u32>> = (0..texts).map(|number| text(number, ids)).collect();
            batch.extend_from_within(..texts / 2);
            batch
        })
        .collect()
}

/// The largest vocabulary of any model.
const LARGEST_VOCABULARY: u32 = 1 << 20;

/// A batch before padding and after.
type Pair = (Vec<Vec<u32>>, PaddedBatch);

/// Checks `pad_batch(sequences)`.
pub fn check_pad_batch(yours: fn(&[Vec<u32>]) -> PaddedBatch) -> Score {
    let pad = |texts: Vec<Vec<u32>>| ask(|| Ok(yours(&texts))).map(|padded| (texts, padded));
    let padded: Result<Vec<Pair>, Complaint> = batches().into_iter().chain(any_batches()).map(pad).collect();
    let each = |look: fn(&Pair) -> Verdict| move |pairs: &Vec<Pair>| pairs.iter().try_for_each(look);
    Score::new("pad_batch", HINTS)
        .about(&padded, "every row is as long as the longest text", each(is_rectangle))
        .about(&padded, "every text keeps all its tokens, in order", each(keeps_tokens))
        .about(&padded, "the mask is true for tokens and false for padding", each(mask_fits))
}

fn is_rectangle((texts, padded): &Pair) -> Verdict {
    let lengths: Vec<usize> = texts.iter().map(Vec::len).collect();
    let longest = lengths.iter().copied().max().unwrap_or(0);
    for (name, rows) in [
        ("`ids`", padded.ids.iter().map(Vec::len).collect::<Vec<_>>()),
        ("`mask`", padded.mask.iter().map(Vec::len).collect()),
    ] {
        if rows == vec![longest; texts.len()] {
            continue;
        }
        let why = match rows.iter().max() {
            _ if rows.len() != texts.len() => "there must be a row for each text, even for one without tokens",
            Some(&length) if length < longest => "texts that are cut off lose tokens, and the loss is another text's",
            Some(&length) if length > longest => "padding beyond the longest text costs time and adds nothing",
            _ => "rows of different lengths do not make a rectangle",
        };
        return wrong!("texts of {lengths:?} tokens gave {name} rows of {rows:?}, expected {longest} each: {why}");
    }
    Ok(())
}

fn keeps_tokens((texts, padded): &Pair) -> Verdict {
    if padded.ids.len() != texts.len() {
        return wrong!("{} texts gave {} rows of ids", texts.len(), padded.ids.len());
    }
    for (row, text) in padded.ids.iter().zip(texts) {
        let is_none = |id: &&u32| **id > LARGEST_VOCABULARY && !text.contains(id);
        if let Some(id) = row.iter().find(is_none) {
            return wrong!(
                "{id} is not a token of any vocabulary, so no model accepts it as padding: fill up with token 0"
            );
        }
        if !(row.starts_with(text) || row.ends_with(text)) {
            return wrong!("the text {} became {}: its tokens are not all there, in order", shown(text), shown(row));
        }
    }
    Ok(())
}

/// Padding may stand on either side, as long as the mask says so.
fn mask_fits(pair: &Pair) -> Verdict {
    keeps_tokens(pair)?;
    let (texts, padded) = pair;
    if padded.mask.len() != texts.len() || padded.ids.len() != texts.len() {
        return wrong!("{} texts gave {} rows of mask", texts.len(), padded.mask.len());
    }
    for ((ids, mask), text) in padded.ids.iter().zip(&padded.mask).zip(texts) {
        let padding = ids.len().saturating_sub(text.len());
        let left: Vec<bool> = (0..ids.len()).map(|t| t >= padding).collect();
        let right: Vec<bool> = (0..ids.len()).map(|t| t < text.len()).collect();
        if (*mask == right && ids.starts_with(text)) || (*mask == left && ids.ends_with(text)) {
            continue;
        }
        let by_id: Vec<bool> = ids.iter().map(|&id| id != 0).collect();
        let inverted = |mask: &[bool], of: &[bool]| mask.iter().zip(of).all(|(a, b)| a != b);
        let why = match mask {
            _ if !mask.contains(&false) => "padding is marked as text, and would be scored as if it had been written",
            _ if inverted(mask, &right) || inverted(mask, &left) => "it is inverted: `true` means a token",
            _ if *mask == by_id => {
                "token 0 is a token like any other and occurs in texts, so the id cannot tell what is padding; the text's \
                 length can"
            }
            _ => "it must be `true` exactly where the text's tokens stand",
        };
        return wrong!("the text {} has the ids {} and the mask {}: {why}", shown(text), shown(ids), shown(mask));
    }
    Ok(())
}

//! `pad_batch`: texts of different lengths become a rectangle.

use super::PaddedBatch;
use crate::course::{Check, Complaint, Score, ask};

const HINTS: [&str; 3] = [
    "How long must every row be, so that no text loses a token and none is computed in vain?",
    "Find the longest text first. Then make two rows for each text: its ids, filled up to that length, and as many \
     `true` as it has tokens, filled up with `false`.",
    "`let longest = sequences.iter().map(Vec::len).max().unwrap_or(0);`, and for each text `let mut row = ids.clone(); \
     row.resize(longest, 0);` and `let mut tokens = vec![true; ids.len()]; tokens.resize(longest, false);`.",
];

/// Checks `pad_batch(sequences)`.
pub fn check_pad_batch(yours: impl Fn(&[Vec<u32>]) -> PaddedBatch) -> Score {
    // The id that padding most often has is a token of these texts too, at both ends.
    let texts = [vec![0, 8, 0], vec![9], vec![4, 0, 6, 1, 0]];
    let padded = ask(|| Ok(yours(&texts)));
    Check::new("pad_batch", HINTS)
        .about(&padded, "every row is as long as the longest text", |padded| is_rectangle(padded, &texts))
        .about(&padded, "every text keeps all its tokens, in order", |padded| keeps_tokens(padded, &texts))
        .about(&padded, "the mask is true for tokens and false for padding", |padded| mask_fits(padded, &texts))
        .score()
}

fn is_rectangle(padded: &PaddedBatch, texts: &[Vec<u32>]) -> Result<(), Complaint> {
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
            _ if rows.len() != texts.len() => "there must be a row for each text",
            Some(&length) if length < longest => "texts that are cut off lose tokens, and the loss is another text's",
            Some(&length) if length > longest => "padding beyond the longest text costs time and tells nothing",
            _ => "rows of different lengths make no rectangle",
        };
        return Err(Complaint::wrong(format!(
            "texts of {lengths:?} tokens gave {name} rows of {rows:?}, expected {longest} each: {why}"
        )));
    }
    Ok(())
}

fn keeps_tokens(padded: &PaddedBatch, texts: &[Vec<u32>]) -> Result<(), Complaint> {
    if padded.ids.len() != texts.len() {
        return Err(Complaint::wrong(format!("{} texts gave {} rows of ids", texts.len(), padded.ids.len())));
    }
    for (row, text) in padded.ids.iter().zip(texts) {
        if !(row.starts_with(text) || row.ends_with(text)) {
            return Err(Complaint::wrong(format!(
                "the text {text:?} became {row:?}: its tokens are not all there, in order"
            )));
        }
    }
    Ok(())
}

/// Padding may stand on either side, as long as the mask says so.
fn mask_fits(padded: &PaddedBatch, texts: &[Vec<u32>]) -> Result<(), Complaint> {
    if padded.mask.len() != texts.len() || padded.ids.len() != texts.len() {
        return Err(Complaint::wrong(format!("{} texts gave {} rows of mask", texts.len(), padded.mask.len())));
    }
    for ((ids, mask), text) in padded.ids.iter().zip(&padded.mask).zip(texts) {
        let padding = ids.len().saturating_sub(text.len());
        let left: Vec<bool> = (0..ids.len()).map(|t| t >= padding).collect();
        let right: Vec<bool> = (0..ids.len()).map(|t| t < text.len()).collect();
        if (*mask == right && ids.starts_with(text)) || (*mask == left && ids.ends_with(text)) {
            continue;
        }
        let by_id: Vec<bool> = ids.iter().map(|&id| id != 0).collect();
        let inverted: Vec<bool> = right.iter().map(|is_token| !is_token).collect();
        let why = match mask {
            _ if *mask == inverted => "it is turned around: `true` means a token",
            _ if *mask == by_id => {
                "token 0 is a token like any other and occurs in texts, so the id cannot tell what is padding; the text's \
                 length can"
            }
            _ if !mask.contains(&false) => "padding is marked as text, and would be scored as if it had been written",
            _ => "it must be `true` exactly where the text's tokens stand",
        };
        return Err(Complaint::wrong(format!("the text {text:?} has the ids {ids:?} and the mask {mask:?}: {why}")));
    }
    Ok(())
}

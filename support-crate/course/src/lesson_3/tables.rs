//! What lesson 3 shows as tables.

use quantlab::measure::Perplexity;
use quantlab::report::Table;

use super::{Cut, Evaluation};

/// The likeliest next tokens, each with its probability.
pub fn guesses_table(prompt: &str, guesses: &[(String, f64)]) -> Table {
    Table::new(format!("After {prompt:?}"))
        .column("token", "", guesses.iter().map(|(token, _)| format!("{token:?}")))
        .column("probability", "", guesses.iter().map(|(_, log_p)| log_p.exp()))
        .column("surprise if it comes", "nats", guesses.iter().map(|(_, log_p)| -log_p))
        .digits("probability", 3)
        .digits("surprise if it comes", 3)
}

/// Batch sizes, each with the share of padding (0 to 1) in the order of the corpus and sorted by length.
pub fn padding_table(shares: &[(usize, f64, f64)]) -> Table {
    Table::new("How much of a batch is padding?")
        .column("batch size", "texts", shares.iter().map(|row| row.0))
        .column("in the order of the corpus", "%", shares.iter().map(|row| 100.0 * row.1))
        .column("sorted by length", "%", shares.iter().map(|row| 100.0 * row.2))
        .decimals("in the order of the corpus", 1)
        .decimals("sorted by length", 1)
}

/// The learner's evaluation, if there is one yet, beside the library's.
pub fn evaluations_table(yours: Option<Evaluation>, librarys: &Perplexity) -> Table {
    let mut table = Table::new("Evaluation of the corpus").headings([
        ("by", ""),
        ("tokens", ""),
        ("average loss", "nats/token"),
        ("perplexity", ""),
    ]);
    if let Some(Evaluation { tokens, average_loss, perplexity }) = yours {
        table = table.row(("evaluate", tokens, average_loss, perplexity));
    }
    table
        .row(("the library", librarys.tokens, librarys.mean_nll, librarys.perplexity))
        .decimals("average loss", 6)
        .decimals("perplexity", 4)
        .note(&librarys.run)
}

/// Batch sizes, each with the perplexity over all tokens and the one from the mean of the batches' means.
pub fn batch_sizes_table(rows: &[(usize, f64, f64)]) -> Table {
    Table::new("The same corpus in batches of different sizes")
        .column("batch size", "texts", rows.iter().map(|row| row.0))
        .column("perplexity, token-weighted", "", rows.iter().map(|row| row.1))
        .column("from the mean of batch means", "", rows.iter().map(|row| row.2))
        .decimals("perplexity, token-weighted", 4)
        .decimals("from the mean of batch means", 4)
}

/// Perplexities of a corpus, the right one first; `vocab_size` is how many tokens a blind guess chooses among.
pub fn ways_table(ways: &[(&str, f64)], vocab_size: usize) -> Table {
    let right = ways.first().map_or(f64::NAN, |(_, perplexity)| *perplexity);
    let is_worse = |perplexity: f64| if perplexity > vocab_size as f64 { "yes" } else { "no" };
    Table::new("Six ways to get it wrong")
        .column("way", "", ways.iter().map(|(way, _)| *way))
        .column("perplexity", "", ways.iter().map(|(_, perplexity)| *perplexity))
        .column("times the right one", "", ways.iter().map(|(_, perplexity)| perplexity / right))
        .column("worse than a blind guess", "", ways.iter().map(|(_, perplexity)| is_worse(*perplexity)))
        .digits("perplexity", 4)
        .digits("times the right one", 3)
}

/// Texts of several kinds, in tokens and in bits per byte.
pub fn kinds_table(kinds: &[(&str, Perplexity)]) -> Table {
    let each = || kinds.iter().map(|(_, perplexity)| perplexity);
    Table::new("One model, different texts")
        .column("text", "", kinds.iter().map(|(name, _)| *name))
        .column("tokens", "", each().map(|perplexity| perplexity.tokens))
        .column("bytes per token", "", each().map(bytes_per_token))
        .column("perplexity", "", each().map(|perplexity| perplexity.perplexity))
        .column("bits per byte", "", each().map(|perplexity| perplexity.bits_per_byte.unwrap_or(f64::NAN)))
        .decimals("bytes per token", 2)
        .digits("perplexity", 4)
        .decimals("bits per byte", 2)
}

pub(super) fn bytes_per_token(perplexity: &Perplexity) -> f64 {
    perplexity.bytes.unwrap_or(0) as f64 / perplexity.tokens as f64
}

/// One text, cut in different ways.
pub fn cuts_table(cuts: &[Cut]) -> Table {
    Table::new("One text, cut in different ways")
        .column("window", "tokens", cuts.iter().map(|cut| cut.window))
        .column("stride", "tokens", cuts.iter().map(|cut| cut.stride))
        .column("tokens read", "", cuts.iter().map(|cut| cut.read))
        .column("tokens scored", "", cuts.iter().map(|cut| cut.loss.tokens))
        .column("average loss", "nats/token", cuts.iter().map(|cut| cut.loss.mean()))
        .column("perplexity", "", cuts.iter().map(|cut| cut.loss.mean().exp()))
        .decimals("average loss", 3)
        .decimals("perplexity", 2)
}

//! What lesson 0 draws.

use quantlab::error::Result;
use quantlab::model::{Operation, Tokenizer};
use quantlab::report::{LinePlot, Table};

use super::Difference;
use crate::figure::counted;

/// The largest difference of each operation over all blocks, and where; and of the whole model, block after block.
pub fn differences_table(alone: &[Difference], together: &[Difference]) -> Table {
    let mut rows: Vec<(String, Difference)> = Vec::new();
    for &difference in alone {
        match rows.iter_mut().find(|(_, largest)| largest.operation == difference.operation) {
            Some((_, largest)) if difference.largest <= largest.largest => (),
            Some((_, largest)) => *largest = difference,
            None => rows.push((difference.operation.to_string(), difference)),
        }
    }
    let last = together.iter().max_by(|a, b| a.largest.total_cmp(&b.largest));
    rows.extend(last.map(|&largest| ("all blocks, one after the other".to_owned(), largest)));
    let place = |layer: Option<usize>| layer.map_or("after all".to_owned(), |layer| layer.to_string());
    Table::new("Yours against the library's: the largest difference")
        .column("operation", "", rows.iter().map(|(name, _)| name.clone()))
        .column("in block", "", rows.iter().map(|(_, difference)| place(difference.layer)))
        .column("share of the token's largest number", "", rows.iter().map(|(_, row)| format!("{:.1e}", row.largest)))
}

/// The differences block by block, by kinds of operations, on a logarithmic axis; `limit` is a line. No point stands for a
/// difference of 0, or one that is not finite ([`where_they_differ`](super::where_they_differ) says where).
///
/// # Errors
/// None in practice.
pub fn differences_plot(alone: &[Difference], together: &[Difference], limit: f64) -> Result<LinePlot> {
    const KINDS: [(&str, &[Operation]); 4] = [
        ("norms", &[Operation::AttentionNorm, Operation::MlpNorm]),
        ("queries, keys, values", &[Operation::Queries, Operation::Keys, Operation::Values]),
        ("attention", &[Operation::Attention]),
        ("residuals", &[Operation::AttentionResidual, Operation::MlpResidual]),
    ];
    let layers = together.iter().filter_map(|difference| difference.layer);
    let largest = |differences: &[Difference], operations: &[Operation]| -> Vec<(usize, f64)> {
        let of = |layer| {
            let here = differences.iter().filter(|d| d.layer == Some(layer) && operations.contains(&d.operation));
            (layer, here.map(|difference| difference.largest).fold(0.0, f64::max))
        };
        layers.clone().map(of).filter(|(_, largest)| *largest > 0.0 && largest.is_finite()).collect()
    };
    let mut plot = LinePlot::new("How far your numbers are from the library's").x("block", "");
    plot = plot.y("largest difference, as a share of the token's largest number", "").log_y();
    for (name, operations) in KINDS {
        plot = plot.series(name, largest(alone, operations))?;
    }
    plot = plot.series("all blocks so far", largest(together, &[Operation::MlpResidual]))?;
    let ends = layers.clone().min().into_iter().chain(layers.clone().max());
    plot.theory(format!("{limit:.0e}, what this lesson allows"), ends.map(|layer| (layer, limit)))
}

/// How many of the likeliest tokens add up to at least `top_p`.
fn kept(sorted: &[f64], top_p: f64) -> usize {
    let mut sum = 0.0;
    let reaches = |p: &&f64| {
        let is_kept = sum < top_p && **p > 0.0;
        sum += **p;
        is_kept
    };
    sorted.iter().take_while(reaches).count()
}

fn sorted(probabilities: &[f64]) -> Vec<f64> {
    let mut sorted = probabilities.to_vec();
    sorted.sort_by(|a, b| b.total_cmp(a));
    sorted
}

/// How many tokens top-p leaves: the fewest, the likeliest first, whose probabilities add up to at least `top_p`.
pub fn nucleus_size(probabilities: &[f64], top_p: f64) -> usize {
    kept(&sorted(probabilities), top_p)
}

/// The probabilities of tokens by rank, at several temperatures, and where top-p cuts each: a point behind which no token is
/// drawn.
///
/// # Errors
/// A probability that is NaN.
pub fn nucleus_plot(by_temperature: &[(f64, Vec<f64>)], top_p: f64) -> Result<LinePlot> {
    const SHOWN: usize = 20_000;
    let mut plot = LinePlot::new(format!("Where top-p = {top_p} cuts"))
        .x("rank of the token", "")
        .y("probability", "")
        .log_x()
        .log_y();
    let mut cuts = Vec::new();
    for (temperature, probabilities) in by_temperature {
        let sorted = sorted(probabilities);
        // Points as dense as the axis shows them.
        let ranks = std::iter::successors(Some(1), |rank| Some(rank + 1 + rank / 12));
        let points = ranks.take_while(|rank| *rank <= sorted.len().min(SHOWN)).map(|rank| (rank, sorted[rank - 1]));
        plot = plot.series(format!("temperature {temperature}"), points.filter(|(_, p)| *p > 1e-9))?;
        let kept = kept(&sorted, top_p).max(1);
        cuts.extend(sorted.get(kept - 1).map(|p| (kept, *p)));
    }
    let labels: Vec<String> = cuts.iter().map(|(kept, _)| counted(*kept, "token")).collect();
    let name = format!("{top_p} of the probability lies up to here");
    plot.points(name.as_str(), cuts)?.label_points(&name, labels)
}

/// The likeliest tokens, with their probabilities at several temperatures.
///
/// # Errors
/// A token that has no text.
pub fn likely_tokens(by_temperature: &[(f64, Vec<f64>)], tokenizer: &Tokenizer, most: usize) -> Result<Table> {
    let mut order: Vec<usize> = (0..by_temperature.first().map_or(0, |(_, p)| p.len())).collect();
    order.sort_by(|&a, &b| {
        by_temperature.iter().map(|(_, p)| p[b].total_cmp(&p[a])).find(|by| by.is_ne()).unwrap_or(a.cmp(&b))
    });
    order.truncate(most);
    let texts =
        order.iter().map(|&id| Ok(format!("{:?}", tokenizer.decode(&[id as u32])?))).collect::<Result<Vec<_>>>()?;
    let table = Table::new("The likeliest next tokens").column("token", "", texts);
    let of = |table: Table, (temperature, p): &(f64, Vec<f64>)| {
        let name = format!("temperature {temperature}");
        table.column(name.as_str(), "%", order.iter().map(|&id| 100.0 * p[id])).digits(&name, 3)
    };
    Ok(by_temperature.iter().fold(table, of))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn top_p_keeps_the_token_that_reaches_it() {
        let kept = [0.1, 0.5, 0.6, 0.75, 0.8, 1.0].map(|top_p| kept(&[0.5, 0.25, 0.25, 0.0], top_p));
        assert_eq!(kept, [1, 1, 2, 2, 3, 3]);
    }

    #[test]
    fn a_table_has_the_largest_difference_of_each_operation() {
        let of = |layer, operation, largest| Difference { layer, operation, largest };
        let alone =
            [of(Some(0), Operation::Keys, 1e-7), of(Some(1), Operation::Keys, 3e-7), of(None, Operation::Logits, 2e-6)];
        let together = [of(Some(0), Operation::MlpResidual, 1e-6), of(Some(1), Operation::MlpResidual, 0.0)];
        let text = differences_table(&alone, &together).to_text();
        assert!(text.contains("keys") && text.contains("3.0e-7") && !text.contains("1.0e-7"), "{text}");
        assert!(differences_plot(&alone, &together, 1e-4).unwrap().table().rows() == 5);
        assert!(differences_plot(&[], &[], 1e-4).is_ok() && nucleus_plot(&[], 0.9).is_ok());
        let tokenizer = quantlab::model::load_model(&["embedded"], &Default::default()).unwrap().tokenizer;
        assert_eq!(likely_tokens(&[], &tokenizer, 5).unwrap().rows(), 0);
    }
}

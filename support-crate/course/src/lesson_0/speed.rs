//! How fast plain loops are, beside the library and memory.

use quantlab::error::Result;
use quantlab::interrupt;
use quantlab::measure::{Clock, MemoryReader, Runs, Statistics, threads};
use quantlab::report::{Summary, Table};

use super::Llama;
use crate::tables::medians_of;

/// A product of a matrix and a vector, with its name.
pub type Product = (&'static str, fn(&[f32], &[f32]) -> Vec<f32>);

/// How fast weights were read, in GB/s: in each round by each product, and by the memory itself, which is the last name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ReadRates {
    /// Who read.
    pub names: Vec<String>,
    /// A row for each round, of one rate for each name.
    pub rounds: Vec<Vec<f64>>,
}

/// Times products of the model's head with one of its own rows, in turn with each other and with the memory.
///
/// # Errors
/// Not enough memory to measure memory with; an interrupt.
pub fn read_rates(clock: &dyn Clock, model: &Llama, products: &[Product], rounds: usize) -> Result<ReadRates> {
    let head = model.head.as_ref().unwrap_or(&model.embedding);
    let x = &head[..model.shape.hidden_size];
    let reader = MemoryReader::new()?;
    let round = |_| {
        interrupt::check()?;
        let rate = |product: &Product| {
            let begin = clock.now();
            std::hint::black_box(product.1(head, x));
            4e-9 * head.len() as f64 / (clock.now() - begin)
        };
        Ok(products.iter().map(rate).chain([reader.gb_per_s()]).collect())
    };
    let memory = format!("memory itself, {} threads", threads());
    let names = products.iter().map(|product| product.0.to_owned()).chain([memory]).collect();
    Ok(ReadRates { names, rounds: (0..rounds).map(round).collect::<Result<_>>()? })
}

impl ReadRates {
    /// The rates of one name.
    pub fn of(&self, index: usize) -> Option<Statistics> {
        self.statistics(|row| row[index])
    }

    /// The rates of one name as multiples of the first name's, round by round.
    pub fn times_the_first(&self, index: usize) -> Option<Statistics> {
        self.statistics(|row| row[index] / row[0])
    }

    fn statistics(&self, of: impl Fn(&Vec<f64>) -> f64) -> Option<Statistics> {
        Statistics::of(&self.rounds.iter().map(of).collect::<Vec<_>>()).ok()
    }

    /// Both for all names.
    pub fn table(&self) -> Table {
        let names = || 0..self.names.len();
        Table::new("How fast the head's weights are read")
            .column("by", "", self.names.clone())
            .column("read", "GB/s", names().map(|index| self.of(index)))
            .column("against the first row", "times as fast", names().map(|index| self.times_the_first(index)))
            .note(medians(self.of(0)))
    }
}

fn medians(of: Option<Statistics>) -> String {
    format!("{}; the last column is paired by round", medians_of(of, "round"))
}

/// Runs of the same text, in turn: without a cache, with one, and by the library.
pub fn speed_table(runs: &[Runs]) -> Table {
    let names = ["yours, without a cache", "yours, with the cache", "the library"];
    let times = runs.iter().map(|each| runs.last().and_then(|library| each.ratio_to(library).ok()));
    Table::new("The same new tokens, three ways")
        .column("who", "", names.into_iter().take(runs.len()))
        .column("new tokens", "tokens/s", runs.iter().map(|each| each.tokens_per_s))
        .column("against the library", "times as long", times)
        .note(medians(runs.first().map(|first| first.latency_s)))
}

/// In words: how slow, by how much the cache helps against what it saves by counting, and what several sums at once bring.
pub fn speed_summary(prompt_tokens: usize, runs: &[Runs], rates: &ReadRates) -> Summary {
    let mut summary = Summary::new("What this run shows");
    if let [anew, on, library] = runs
        && let (Ok(slower), Ok(saved)) = (on.ratio_to(library), anew.ratio_to(on))
    {
        let new = on.runs.first().map_or(0, |run| run.tokens_generated);
        let (all, once) = ((prompt_tokens..prompt_tokens + new).sum::<usize>(), prompt_tokens + new - 1);
        summary =
            summary.point(format!("With its cache, your model took {} as long as the library.", times(&slower))).point(
                format!("Without the cache it took {} as long as with it,", times(&saved))
                    + &format!(
                        " where {all} tokens have to be computed instead of {once}: {:.2} times as many.",
                        all as f64 / once as f64
                    ),
            );
    }
    for (index, name) in rates.names.iter().enumerate().skip(1) {
        if let Some(faster) = rates.times_the_first(index) {
            summary = summary.point(format!("{} read {} as fast as {}.", name, times(&faster), rates.names[0]));
        }
    }
    summary
}

fn times(ratio: &Statistics) -> String {
    let apart = if ratio.side_of(1.0).is_none() { " (not told apart from 1)" } else { "" };
    format!("{ratio:.2} times{apart}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use quantlab::measure::Metrics;

    #[test]
    fn the_summary_compares_round_by_round() {
        let runs = |seconds: [f64; 2]| Runs::of(seconds.map(|s| Metrics::of(2, s)).repeat(3)).unwrap();
        let runs = [runs([6.0, 12.0]), runs([2.0, 4.0]), runs([0.5, 1.0])];
        let rates =
            ReadRates { names: vec!["a".to_owned(), "b".to_owned()], rounds: vec![vec![2.0, 3.0], vec![4.0, 2.0]] };
        let text = speed_summary(5, &runs, &rates).to_string();
        assert!(text.contains("4.00 [4.00, 4.00] times as long as the library"), "{text}");
        assert!(text.contains("3.00 [3.00, 3.00] times as long as with it, where 11 tokens"), "{text}");
        assert!(text.contains("b read 1.00 [0.50, 1.50] times (not told apart from 1) as fast as a"), "{text}");
        assert_eq!((rates.table().rows(), speed_table(&runs).rows(), speed_table(&[]).rows()), (2, 3, 0));
        assert_eq!(ReadRates::default().table().rows(), 0);
    }
}

//! Three ways to serve, and what each takes.

use std::cmp::Ordering;

use quantlab::error::Result;
use quantlab::measure::{CacheComparison, RunInfo, Statistics, Uncertain, compare_caches};
use quantlab::model::{CacheFormat, LoadOptions, Loaded, load_model};
use quantlab::quant::QuantizationConfig;
use quantlab::report::Table;
use quantlab::serve::{Request, ServerOptions, ServingReport, serve};

use super::serving::{Percentile, Scheduler, measured_ttft};
use crate::held_out_samples;
use crate::tables::{BY_ROUND, medians_of, milliseconds, places, told_apart};

/// What a way to serve took for the same requests, all at once, round by round.
#[derive(Debug, Clone, PartialEq)]
pub struct ServingRow {
    /// What it is called.
    pub name: &'static str,
    /// Weights, and keys and values of as many of the longest requests as run at once.
    pub mib: [f64; 2],
    /// New tokens per second.
    pub tokens_per_s: Statistics,
    /// Times as many as the first, paired by round.
    pub of_first: Statistics,
    /// The time to the first token at 90 %, of each round.
    pub ttft_s: Statistics,
    /// The time between two tokens at 90 %, of each round.
    pub gap_s: Statistics,
    /// The same as a part of that of the first, paired by round.
    pub gap_of_first: Statistics,
    /// Of predictions from those of the first with keys and values as it computes, in nats.
    pub kl_divergence: Uncertain,
    /// What was measured on.
    pub run: RunInfo,
}

/// Serves the requests in three ways, one run of each in every round, which they begin in turn: weights, keys and values in
/// float32; int8 and float16; int4 and int8.
///
/// # Errors
/// No rounds; a model that cannot be loaded once more; what the server reports.
pub fn serving_rows(
    loaded: &Loaded,
    arrivals: &[(f64, Request)],
    rounds: usize,
    options: &ServerOptions,
    plan: Scheduler,
    percentile: Percentile<'_>,
) -> Result<Vec<ServingRow>> {
    let load = |config| {
        let options = LoadOptions { quantization: Some(config), ..LoadOptions::default() };
        load_model(&[loaded.model_id.as_str()], &options)
    };
    let (int8, int4) = (load(QuantizationConfig::llm_int8(0.0))?, load(QuantizationConfig::int4(64))?);
    let ways = [
        ("float32, float32", loaded, CacheFormat::Float32),
        ("int8, float16", &int8, CacheFormat::Float16),
        ("int4, int8", &int4, CacheFormat::Int8),
    ];
    let mut reports: Vec<Vec<ServingReport>> = vec![Vec::new(); ways.len()];
    for round in 0..=rounds {
        for place in places(round, ways.len()) {
            let (_, loaded, cache) = ways[place];
            let options = ServerOptions { cache_format: Some(cache), ..options.clone() };
            // The first round warms up, for which one request will do.
            let arrivals = if round == 0 { &arrivals[..arrivals.len().min(1)] } else { arrivals };
            let report = serve(loaded, arrivals, &options, plan)?;
            if round > 0 {
                reports[place].push(report);
            }
        }
    }
    let figures =
        |reports: &[ServingReport], of: &dyn Fn(&ServingReport) -> f64| reports.iter().map(of).collect::<Vec<_>>();
    let rate = |report: &ServingReport| report.tokens_per_s();
    let gap = |report: &ServingReport| {
        let all: Vec<f64> = report.requests.iter().flat_map(|request| request.gaps_s()).collect();
        percentile(&all, 90.0)
    };
    let mut longest: Vec<usize> =
        arrivals.iter().map(|(_, one)| one.prompt.len() + one.options.max_new_tokens - 1).collect();
    longest.sort_unstable_by(|a, b| b.cmp(a));
    longest.truncate(options.max_running);
    let texts = held_out_samples(3, 1600)?;
    let ids = |text: &&str| Ok(loaded.tokenizer.encode(text)?.into_iter().take(160).collect());
    let ids: Vec<Vec<u32>> = texts.iter().map(ids).collect::<Result<_>>()?;
    let others: Vec<(&Loaded, CacheFormat)> = ways.iter().map(|(_, loaded, cache)| (*loaded, *cache)).collect();
    let context = 32..160;
    let quality = compare_caches(loaded, &others, &ids, std::slice::from_ref(&context))?;
    let firsts = &reports[0];
    let row = |((&(name, loaded, cache), reports), quality): (
        (&(_, &Loaded, CacheFormat), &Vec<ServingReport>),
        &CacheComparison,
    )| {
        let bytes = |tokens: &usize| Ok(loaded.model.new_cache_in(Some(cache), 1, *tokens)?.bytes());
        let cache: usize = longest.iter().map(bytes).sum::<Result<_>>()?;
        let info = loaded.model.info();
        let of_first = |of: &dyn Fn(&ServingReport) -> f64| {
            let pairs = reports.iter().zip(firsts).map(|(one, first)| of(one) / of(first));
            Statistics::of(&pairs.collect::<Vec<_>>())
        };
        let ttft = |report: &ServingReport| percentile(&measured_ttft(report), 90.0);
        Ok(ServingRow {
            name,
            mib: [info.parameter_bytes + info.quant_state_bytes, cache].map(|bytes| bytes as f64 / f64::from(1 << 20)),
            tokens_per_s: Statistics::of(&figures(reports, &rate))?,
            of_first: of_first(&rate)?,
            ttft_s: Statistics::of(&figures(reports, &ttft))?,
            gap_s: Statistics::of(&figures(reports, &gap))?,
            gap_of_first: of_first(&gap)?,
            kl_divergence: quality.kl_divergence,
            run: RunInfo::of(loaded),
        })
    };
    ways.iter().zip(&reports).zip(&quality).map(row).collect()
}

/// Speed and waiting of each way to serve.
pub fn serving_table(rows: &[ServingRow]) -> Table {
    let others =
        |of: fn(&ServingRow) -> Statistics| rows.iter().enumerate().map(move |(i, row)| (i > 0).then(|| of(row)));
    Table::new("Ways to serve: how fast")
        .column("weights, cache", "", rows.iter().map(|row| row.name))
        .column("new tokens", "/s", rows.iter().map(|row| row.tokens_per_s))
        .column("times the first", "", others(|row| row.of_first))
        .column("so it is", "", others(|row| row.of_first).map(|ratio| ratio.map_or("", told_apart)))
        .column("TTFT, p90", "ms", rows.iter().map(|row| milliseconds(row.ttft_s)))
        .column("between tokens, p90", "ms", rows.iter().map(|row| milliseconds(row.gap_s)))
        .note(medians_of(rows.first().map(|row| row.tokens_per_s), "round"))
        .note(format!("times the first: {BY_ROUND}"))
        .note(RunInfo::of_all(rows.iter().map(|row| &row.run)))
}

/// Whether each way to serve keeps two budgets: `part` of the memory of the first, and no longer between two tokens than
/// that, paired by round.
pub fn budget_table(rows: &[ServingRow], part: f64) -> Table {
    let mib = rows.first().map_or(0.0, |first| part * first.mib.iter().sum::<f64>());
    let keeps = |row: &ServingRow| match row.gap_of_first.side_of(1.0) {
        _ if row.mib.iter().sum::<f64>() > mib => "too much memory",
        Some(Ordering::Greater) => "too slow",
        // The first itself takes as long as it does.
        None if (row.gap_of_first.low, row.gap_of_first.high) != (1.0, 1.0) => "time not told apart",
        _ => "yes",
    };
    Table::new("Ways to serve: two budgets, and what predictions pay")
        .column("weights, cache", "", rows.iter().map(|row| row.name))
        .column("weights", "MiB", rows.iter().map(|row| row.mib[0]))
        .column("cache", "MiB", rows.iter().map(|row| row.mib[1]))
        .column("between tokens, of the first", "", rows.iter().map(|row| row.gap_of_first))
        .column("keeps both", "", rows.iter().map(keeps))
        .column("KL divergence", "nats", rows.iter().map(|row| row.kl_divergence))
        .note(format!("budgets: {mib:.0} MiB, and no longer between two tokens (p90) than the first, paired by round"))
        .note("between tokens, of the first: that time as a part of the first's")
        .note("time not told apart: it fits into the memory, and this part's interval contains 1 or is of few rounds")
}

#[cfg(test)]
mod tests {
    use super::*;
    use quantlab::model::{Device, load_model_and_tokenizer};

    #[test]
    fn a_budget_is_kept_where_the_interval_says_so() {
        let run = RunInfo::of(&load_model_and_tokenizer(&["embedded"], "float32", Device::Cpu).unwrap());
        let row = |name, mib, gaps: &[f64]| {
            let of = |values: &[f64]| Statistics::of(values).unwrap();
            let [one, gap_of_first] = [of(&[1.0; 6]), of(gaps)];
            let kl_divergence = Uncertain { value: 0.0, standard_error: 0.0 };
            ServingRow {
                name,
                mib: [mib, 1.0],
                tokens_per_s: one,
                of_first: one,
                ttft_s: one,
                gap_s: one,
                gap_of_first,
                kl_divergence,
                run: run.clone(),
            }
        };
        let rows = [
            row("first", 9.0, &[1.0; 6]),
            row("large", 10.0, &[0.5; 6]),
            row("slow", 4.0, &[1.1, 1.2, 1.1, 1.2, 1.3, 1.2]),
            row("unsure", 4.0, &[0.9, 1.2, 1.1, 1.2, 1.3, 1.2]),
            row("few", 4.0, &[0.5; 3]),
            row("good", 4.0, &[0.5; 6]),
        ];
        let kept = |part| {
            let csv = budget_table(&rows, part).to_csv_string().unwrap();
            let words = ["too much memory", "too slow", "time not told apart", "yes"];
            let word = |line: &str| words.iter().position(|word| line.contains(word)).unwrap();
            csv.lines().skip(1).map(word).collect::<Vec<_>>()
        };
        assert_eq!((kept(1.0), kept(0.6)), (vec![3, 0, 1, 2, 2, 3], vec![0, 0, 1, 2, 2, 3]));
        let text = serving_table(&rows).to_text();
        assert!(text.contains("medians of 6 rounds") && text.contains("not told apart"), "{text}");
    }
}

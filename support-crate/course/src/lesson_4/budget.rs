//! `fastest_within`: which formats fit a budget, the fastest first.

use quantlab::polars::prelude::{Column, DataFrame};
use rand::Rng;

use quantlab::error::Result;

use crate::cases::{random, size};
use crate::failures::must_fail;
use crate::{Complaint, Score, Verdict, ask};

const HINTS: [&str; 3] = [
    "Which rows must go, and by which column are the others sorted?",
    "`results.column(name)?.f64()?` are the numbers of a column; `.lt_eq(limit)` and `.lt(limit)` compare all of them. \
     Two such masks are joined with `&`, `results.filter(&mask)?` keeps the rows, and `.sort([name], options)?` sorts them.",
    "`let is_small = results.column(\"memory with scales (MiB)\")?.f64()?.lt_eq(mib);`, likewise `is_good` with \
     `.lt(nats)`; `results.filter(&(&is_small & &is_good))?`, and `.sort([\"decode (tokens/s)\"], \
     SortMultipleOptions::default().with_order_descending(true))?`",
];

/// A format: memory, decode rate, and KL divergence if it was compared.
type Format = (f64, f64, Option<f64>);

/// Checks `fastest_within(results, mib, nats)`.
pub fn check_fastest_within(yours: fn(&DataFrame, f64, f64) -> Result<DataFrame>) -> Score {
    let each = |look: &dyn Fn(&[Format], &[usize]) -> Verdict| -> Verdict {
        cases().iter().try_for_each(|formats| look(formats, &chosen(&yours, formats)?))
    };
    let fits = |(memory, _, kl): Format| memory <= MIB && kl.is_some_and(|kl| kl < NATS);
    Score::new("fastest_within", HINTS)
        .point(
            "no format is too large: at most `mib`",
            each(&|formats, got| none(formats, got, "too large", |(memory, ..)| memory > MIB)),
        )
        .point(
            "the KL divergence of each is below `nats`",
            each(&|formats, got| {
                none(formats, got, "too far from full precision", |(.., kl)| kl.is_some_and(|kl| kl >= NATS))
            }),
        )
        .point(
            "formats without a KL divergence are left out",
            each(&|formats, got| none(formats, got, "not compared with full precision", |(.., kl)| kl.is_none())),
        )
        .point("all that fit are there", {
            each(&|formats, got| match (0..formats.len()).find(|row| fits(formats[*row]) && !got.contains(row)) {
                None => Ok(()),
                Some(row) => wrong!("{} fits into {MIB} MiB and {NATS} nats, but is left out", shown(formats[row])),
            })
            .and_then(|()| passes_errors_on(&yours))
        })
        .point("the fastest comes first", {
            each(&|formats, got| match got.windows(2).find(|pair| formats[pair[0]].1 < formats[pair[1]].1) {
                None => Complaint::unless(formats.is_empty() || got.len() <= formats.len(), || "a row came twice"),
                Some(pair) => {
                    wrong!("{} stands above {}, which is faster", shown(formats[pair[0]]), shown(formats[pair[1]]))
                }
            })
        })
}

const MIB: f64 = 250.0;
const NATS: f64 = 0.125;

/// Formats around the limits and at them, in any order, and none.
fn cases() -> Vec<Vec<Format>> {
    let mut rng = random(47);
    let mut case = || -> Vec<Format> {
        let n = size(&mut rng, 40);
        let mut format = || {
            let kl = rng.random_bool(0.8).then(|| f64::from(rng.random_range(0..5_u32)) * NATS / 2.0);
            (f64::from(rng.random_range(1..5_u32)) * 125.0, rng.random_range(1.0..200.0), kl)
        };
        (0..n).map(|_| format()).collect()
    };
    let mut cases: Vec<Vec<Format>> = (0..12).map(|_| case()).collect();
    cases.push(vec![(250.0, 10.0, Some(0.1)), (125.0, 20.0, Some(0.0)), (100.0, 90.0, None)]);
    cases.push(vec![(500.0, 10.0, Some(0.1))]);
    cases
}

fn frame(formats: &[Format]) -> Result<DataFrame> {
    // The number of the row in its name, by which it is found again.
    let names: Vec<String> = (0..formats.len()).map(|row| row.to_string()).collect();
    Ok(DataFrame::new(
        formats.len(),
        vec![
            Column::new("format".into(), names),
            Column::new("memory with scales (MiB)".into(), formats.iter().map(|format| format.0).collect::<Vec<_>>()),
            Column::new("decode (tokens/s)".into(), formats.iter().map(|format| format.1).collect::<Vec<_>>()),
            Column::new("KL divergence (nats)".into(), formats.iter().map(|format| format.2).collect::<Vec<_>>()),
        ],
    )?)
}

/// The rows that an answer chose.
fn chosen(
    yours: &impl Fn(&DataFrame, f64, f64) -> Result<DataFrame>,
    formats: &[Format],
) -> Result<Vec<usize>, Complaint> {
    let got = ask(|| yours(&frame(formats)?, MIB, NATS))?;
    let names = ask(|| Ok(got.column("format")?.str()?.iter().flatten().map(str::to_owned).collect::<Vec<_>>()))?;
    names
        .iter()
        .map(|name| name.parse().map_err(|_| Complaint::wrong(format!("there is no format {name:?}"))))
        .collect()
}

/// Tables that lack a column, or have words in it.
fn passes_errors_on(yours: &impl Fn(&DataFrame, f64, f64) -> Result<DataFrame>) -> Verdict {
    let whole = ask(|| frame(&[(125.0, 10.0, Some(0.0)), (125.0, 20.0, Some(0.0))]))?;
    for name in ["memory with scales (MiB)", "decode (tokens/s)", "KL divergence (nats)"] {
        let lacking = ask(|| Ok(whole.drop(name)?))?;
        must_fail(ask(|| yours(&lacking, MIB, NATS)), |_| {
            format!(
                "there was no column {name:?}, but you returned a table as if all was well: pass errors on with `?`"
            )
        })?;
    }
    for name in ["memory with scales (MiB)", "KL divergence (nats)"] {
        let mut of_words = whole.clone();
        ask(|| Ok(of_words.with_column(Column::new(name.into(), vec!["a", "b"])).map(drop)?))?;
        must_fail(ask(|| yours(&of_words, MIB, NATS)), |_| {
            format!("{name:?} had words for numbers, but you returned a table: pass errors on with `?`")
        })?;
    }
    Ok(())
}

fn none(formats: &[Format], got: &[usize], what: &str, is_so: fn(Format) -> bool) -> Verdict {
    match got.iter().find(|row| is_so(formats[**row])) {
        None => Ok(()),
        Some(&row) => wrong!("with {MIB} MiB and {NATS} nats, {} is {what}", shown(formats[row])),
    }
}

fn shown((memory, decode, kl): Format) -> String {
    let kl = kl.map_or("no KL divergence".to_owned(), |kl| format!("{kl} nats"));
    format!("a format of {memory} MiB, {decode:.0} tokens/s and {kl}")
}

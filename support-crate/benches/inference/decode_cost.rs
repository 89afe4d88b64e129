//! How the time for decoding grows with the number of tokens, with the KV cache and without.

use std::path::Path;

use quantlab::error::Result;
use quantlab::measure::{Timing, TimingOptions, TokenIds};
use quantlab::model::Loaded;
use quantlab::report::{LinePlot, Table, significant};

use crate::arguments::Arguments;
use crate::speed::prompts;

/// Tokens of the prompt.
const PROMPT_TOKENS: usize = 16;
/// Tokens after the first new one.
const DECODE_TOKENS: usize = 128;
/// The longest sequence, in tokens: the prompt, the first new token and those after it.
pub const CONTEXT_NEEDED: usize = PROMPT_TOKENS + 1 + DECODE_TOKENS;
/// A run without the cache takes long; noise shows less in it.
const MAX_REPEATS: usize = 3;
/// Measured points that are drawn of a curve.
const POINTS: usize = 16;

/// Measures, says how the time grows, and draws it.
pub fn plot(loaded: &Loaded, path: &Path, arguments: &Arguments) -> Result<()> {
    eprintln!("decoding {DECODE_TOKENS} tokens with and without the KV cache");
    let mut plot = LinePlot::new("Time to decode n tokens").x("n, new tokens after the first", "").y("time", "s");
    let mut table =
        Table::new(format!("Decoding {DECODE_TOKENS} tokens after a prompt of {PROMPT_TOKENS}")).headings([
            ("", ""),
            ("time", "s"),
            ("per token", "ms"),
            ("plus, per token before it", "us"),
            ("twice the tokens take", "times the time"),
        ]);
    for (name, use_cache) in [("without KV cache", false), ("with KV cache", true)] {
        let repeats = arguments.repeats.min(MAX_REPEATS);
        let options =
            TimingOptions { max_new_tokens: DECODE_TOKENS + 1, use_cache, repeats, ..TimingOptions::default() };
        let timing = loaded.time(TokenIds(&prompts(loaded, 1, PROMPT_TOKENS)), &options)?;
        let cost = Cost::of(&timing);
        let (each_ms, growth_us) = (cost.linear * 1e3, 2.0 * cost.quadratic * 1e6);
        table = table.row((name, cost.seconds(DECODE_TOKENS), each_ms, growth_us, cost.of_doubling()));
        let measured = (1..=POINTS).map(|i| i * DECODE_TOKENS / POINTS).map(|n| (n, cost.seconds(n)));
        plot = plot
            .points(name, measured)?
            .theory(format!("{name}: {}", cost.formula()), (0..=DECODE_TOKENS).map(|n| (n, cost.fitted(n))))?;
        if use_cache {
            let note = format!("{} | medians of {repeats} runs; lines: fits by least squares", timing.run);
            (plot, table) = (plot.note(&note), table.note(note));
        }
    }
    if path.extension().is_some_and(|extension| extension == "png") {
        plot.save_png(path)
    } else {
        plot.save_svg(path)
    }?;
    let table = table.note("2 times: the time grows linearly; 4 times: quadratically").to_text();
    let text = format!("{table}\nplot: {}", path.display());
    // Standard output is for the rows alone if they are to be read by a program.
    if arguments.json {
        eprintln!("{text}")
    } else {
        println!("\n{text}")
    }
    Ok(())
}

/// What decoding n tokens takes, for each n.
struct Cost {
    /// Seconds for n tokens at n - 1.
    measured: Vec<f64>,
    /// The fit by least squares: `linear * n + quadratic * n^2` seconds.
    linear: f64,
    quadratic: f64,
}

impl Cost {
    fn of(timing: &Timing) -> Self {
        // The first new token belongs to the prefill.
        let tokens = timing.token_ms[1..].iter();
        let measured: Vec<f64> = tokens.scan(0.0, |sum, ms| Some(*sum + ms / 1e3).inspect(|&s| *sum = s)).collect();
        let sum = |of: &dyn Fn(f64, f64) -> f64| -> f64 {
            measured.iter().enumerate().map(|(i, &seconds)| of((i + 1) as f64, seconds)).sum()
        };
        let [n2, n3, n4] = [2, 3, 4].map(|power| sum(&|n, _| n.powi(power)));
        let (nt, n2t) = (sum(&|n, t| n * t), sum(&|n, t| n * n * t));
        let determinant = n2 * n4 - n3 * n3;
        let (linear, quadratic) = ((nt * n4 - n2t * n3) / determinant, (n2t * n2 - nt * n3) / determinant);
        Self { measured, linear, quadratic }
    }

    fn seconds(&self, n: usize) -> f64 {
        self.measured[n - 1]
    }

    fn fitted(&self, n: usize) -> f64 {
        self.linear * n as f64 + self.quadratic * (n * n) as f64
    }

    fn formula(&self) -> String {
        let [linear, quadratic] = [self.linear, self.quadratic.abs()].map(|seconds| significant(seconds * 1e3, 3));
        let sign = if self.quadratic < 0.0 { '\u{2212}' } else { '+' };
        format!("{linear} n {sign} {quadratic} n\u{b2} ms")
    }

    /// How many times the time of half the tokens all of them take.
    fn of_doubling(&self) -> f64 {
        self.seconds(DECODE_TOKENS) / self.seconds(DECODE_TOKENS / 2)
    }
}

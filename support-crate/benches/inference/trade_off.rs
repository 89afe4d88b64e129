//! What each precision takes, gives and costs: memory, decode speed, perplexity, in one picture.

use std::path::Path;

use quantlab::error::Result;
use quantlab::measure::{PerplexityOptions, Statistics, perplexity};
use quantlab::report::{TradeOff, significant};
use quantlab::source::held_out_text;

use crate::row::Row;

/// Speed is that of the model measured, one sequence at a time; quality that of the embedded model, whose
/// text means something, on text that it never saw.
const QUALITY_MODEL: &str = "embedded";

/// Draws the rows of the first engine; as PNG if the file is called so, else as SVG.
pub fn plot(rows: &[Row], path: &Path, model: &str) -> Result<()> {
    let (engine, batch) = (rows[0].variant.engine, rows[0].speed.batch);
    let shown = || rows.iter().filter(|row| row.variant.engine == engine && row.speed.batch == batch);
    let mut plot = TradeOff::new("Fewer bits: less memory, more speed, some quality")
        .x("memory of the weights, with scales", "MiB")
        .y(format!("decode, {batch} at a time"), "tokens/s")
        .higher_is_better()
        .intervals(Statistics::interval_names(shown().map(|row| &row.speed.decode_tok_s)))
        .note(format!(
            "speed and memory: {model}, {} threads; perplexity: the embedded model",
            quantlab::model::threads()
        ));
    for row in shown() {
        let loaded = row.variant.load(QUALITY_MODEL)?;
        let quality = perplexity(&loaded, &[held_out_text()], &PerplexityOptions::default())?.perplexity;
        let name = format!("{}: perplexity {}", row.variant.format, significant(quality, 4));
        eprintln!("{name}");
        plot = plot.point(name, row.load.weights_mib, row.speed.decode_tok_s)?;
    }
    if path.extension().is_some_and(|extension| extension == "png") { plot.save_png(path) } else { plot.save_svg(path) }
}

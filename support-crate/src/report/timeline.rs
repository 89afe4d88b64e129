//! Prefill and decode on a time axis: one long step over the whole prompt, then a short one per token.

use std::fmt::Display;

use super::axis::Axis;
use super::canvas::{Anchor, Canvas, Rect, Text, shortened, text_width};
use super::cell::Cell;
use super::estimate::{Estimate, Number};
use super::frame::{Entry, Key, WIDTH, draw_heading, draw_legend, draw_note};
use super::number::{duration, time_unit, whole};
use super::plot::{check_any, check_value, ways_out};
use super::style::{GRID, INK, LABEL_SIZE, MUTED, PALETTE, TICK_SIZE, WHITE, draw_reference};
use super::table::Table;
use crate::error::{Error, Result};
use crate::measure::Timing;

const LEFT: f64 = 28.0;
const RIGHT: f64 = WIDTH - 28.0;
const BLOCK: f64 = 36.0;
/// Narrower blocks would run into each other: then one block stands for several steps.
const NARROWEST: f64 = 5.0;
const PREFILL: plotters::style::RGBColor = PALETTE[0];
const DECODE: plotters::style::RGBColor = PALETTE[1];

/// When the tokens of a run come out: the prefill/decode diagram, drawn to scale from measured times.
///
/// ```
/// use quantlab::report::Timeline;
///
/// let diagram = Timeline::new("One long step, then one short step per token")
///     .run("prompt of 512 tokens", 512, 0.184, [0.0101; 20])?
///     .run("prompt of 16 tokens", 16, 0.012, [0.0098; 20])?;
/// assert!(diagram.to_svg()?.contains("prefill: all 512 prompt tokens at once"));
/// # Ok::<(), quantlab::error::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Timeline {
    title: String,
    note: String,
    runs: Vec<Run>,
}

#[derive(Debug, Clone)]
struct Run {
    name: String,
    prompt_tokens: usize,
    prefill: f64,
    steps: Vec<f64>,
}

impl Timeline {
    /// A diagram without runs yet.
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), note: String::new(), runs: Vec::new() }
    }

    /// Adds a run: its name (`""` for none), the tokens of its prompt, the seconds of its prefill, and
    /// the seconds of each decode step. Where only their mean is known, `[mean; 20]` draws 20 steps.
    pub fn run(
        mut self,
        name: impl Into<String>,
        prompt_tokens: usize,
        prefill_s: impl Number,
        decode_steps_s: impl IntoIterator<Item: Number>,
    ) -> Result<Self> {
        let (name, prefill) = (name.into(), prefill_s.to_f64());
        let steps: Vec<f64> = decode_steps_s.into_iter().map(Number::to_f64).collect();
        for (part, seconds) in steps.iter().map(|step| ("decode", *step)).chain([("prefill", prefill)]) {
            check_value(&name, part, Estimate::exact(seconds))?;
            if seconds < 0.0 {
                return Err(Error::input(format!("`{}`: a {part} time of {seconds} s", self.title))
                    .hint("times are zero or more seconds"));
            }
        }
        self.runs.push(Run { name, prompt_tokens, prefill, steps });
        Ok(self)
    }

    /// Adds a run as it was measured.
    pub fn timing(self, name: impl Into<String>, timing: &Timing) -> Result<Self> {
        let seconds: Vec<f64> = timing.token_ms.iter().map(|ms| ms / 1e3).collect();
        let Some((prefill, steps)) = seconds.split_first() else {
            return Err(Error::input(format!("`{}`: a timing without tokens", self.title))
                .hint("measure with at least one new token"));
        };
        self.run(name, timing.prompt_tokens, *prefill, steps.to_vec())
    }

    /// A line of small print below the diagram: model, engine, device, dtype, threads, build.
    pub fn note(mut self, note: impl Display) -> Self {
        self.note = note.to_string();
        self
    }

    /// The diagram's numbers as a table, one row per run.
    pub fn table(&self) -> Result<Table> {
        let mut table = Table::new(&self.title).headings([
            ("run", ""),
            ("prompt", "tokens"),
            ("prefill (TTFT)", "s"),
            ("decode steps", ""),
            ("mean step", "s"),
            ("total", "s"),
        ])?;
        for run in &self.runs {
            let mean = run.mean_step().map_or(Cell::Missing, Cell::Number);
            table = table.row((&run.name, run.prompt_tokens, run.prefill, run.steps.len(), mean, run.total()))?;
        }
        Ok(table.note(&self.note))
    }

    pub(super) fn scene(&self) -> Result<Canvas> {
        let longest = self.runs.iter().map(Run::total).fold(0.0, f64::max);
        check_any(&self.title, longest > 0.0, "add .run(\"name\", prompt_tokens, prefill_s, [step_s; 20])?")?;
        let (unit, unit_name) = time_unit(longest);
        let axis = Axis::varied(&[0.0, longest / unit], 9);
        let lanes = Lanes { axis, unit };

        let mut canvas = Canvas::new(WIDTH, 0.0);
        let top = draw_heading(&mut canvas, &self.title, 16.0);
        let dots = lanes.shows_tokens(&self.runs);
        let top = draw_legend(&mut canvas, &self.legend(dots), LEFT, top) + 8.0;
        let bottom = top + self.runs.iter().map(Run::height).sum::<f64>();
        lanes.draw_axis(&mut canvas, top, bottom, unit_name);
        let mut lane_top = top;
        for run in &self.runs {
            lanes.draw_run(&mut canvas, run, lane_top, dots);
            lane_top += run.height();
        }
        canvas.height = draw_note(&mut canvas, &self.note, bottom + 52.0).ceil();
        let background = Rect { left: 0.0, top: 0.0, right: WIDTH, bottom: canvas.height };
        canvas.rect(background, WHITE);
        canvas.shapes.rotate_right(1);
        Ok(canvas)
    }
}

impl Timeline {
    fn legend(&self, tokens: bool) -> Vec<Entry> {
        let entry = |label: &str, key| Entry { label: label.into(), key };
        let mut legend = vec![entry("prefill", Key::Swatch(PREFILL)), entry("decode", Key::Swatch(DECODE))];
        if tokens {
            legend.push(entry("a new token comes out", Key::Dot));
        }
        legend
    }
}

impl Run {
    fn total(&self) -> f64 {
        self.prefill + self.steps.iter().sum::<f64>()
    }

    fn mean_step(&self) -> Option<f64> {
        let count = self.steps.len();
        (count > 0).then(|| self.steps.iter().sum::<f64>() / count as f64)
    }

    /// The pixels from the top of this run to the top of the next.
    fn height(&self) -> f64 {
        let heading = if self.name.is_empty() { 0.0 } else { 24.0 };
        heading + 42.0 + BLOCK + 44.0
    }
}

ways_out!(Timeline);

/// The time axis that all runs share.
struct Lanes {
    axis: Axis,
    unit: f64,
}

impl Lanes {
    fn x(&self, seconds: f64) -> f64 {
        LEFT + self.axis.position(seconds / self.unit) * (RIGHT - LEFT)
    }

    fn draw_axis(&self, canvas: &mut Canvas, top: f64, bottom: f64, unit: &str) {
        for tick in &self.axis.ticks {
            let x = self.x(tick.value * self.unit);
            canvas.line((x, top), (x, bottom + 5.0), GRID, 1.0);
            let text = Text::new((x, bottom + 20.0), &tick.label, TICK_SIZE, INK);
            canvas.text(text.anchor(Anchor::Middle));
        }
        canvas.line((LEFT, bottom), (RIGHT, bottom), MUTED, 1.2);
        let at = ((LEFT + RIGHT) / 2.0, bottom + 42.0);
        canvas.text(Text::new(at, format!("time ({unit})"), LABEL_SIZE, INK).anchor(Anchor::Middle));
    }

    fn draw_run(&self, canvas: &mut Canvas, run: &Run, mut top: f64, dots: bool) {
        if !run.name.is_empty() {
            let name = format!("{}: {} in all", run.name, duration(run.total()));
            let name = shortened(&name, TICK_SIZE * 1.1, RIGHT - LEFT);
            canvas.text(Text::new((LEFT, top + 16.0), name, TICK_SIZE, INK).bold());
            top += 24.0;
        }
        let blocks = top + 42.0;
        let together = self.draw_blocks(canvas, run, blocks, dots);
        self.draw_first_token(canvas, run, top, blocks);
        let tokens = match run.prompt_tokens {
            1 => "the one prompt token".to_owned(),
            count => format!("all {} prompt tokens at once", whole(count as i64)),
        };
        let text = format!("prefill: {tokens}");
        canvas.text(Text::new((LEFT, top + 14.0), text, TICK_SIZE, INK));
        self.draw_decode_label(canvas, run, together, blocks + BLOCK);
    }

    fn step_width(&self, run: &Run) -> f64 {
        self.x(run.mean_step().unwrap_or(0.0)) - self.x(0.0)
    }

    /// Whether there is room for a dot per token, in all runs alike.
    fn shows_tokens(&self, runs: &[Run]) -> bool {
        runs.iter().all(|run| run.steps.is_empty() || self.step_width(run) >= 8.0)
    }

    /// Draws the blocks; returns how many steps a block of decode stands for.
    fn draw_blocks(&self, canvas: &mut Canvas, run: &Run, top: f64, dots: bool) -> usize {
        let bottom = top + BLOCK;
        let prefill = Rect { left: self.x(0.0), right: self.x(run.prefill), top, bottom };
        canvas.rect(prefill, PREFILL);
        let together = group_size(self.step_width(run));
        let mut tokens = vec![run.prefill];
        let mut start = run.prefill;
        for steps in run.steps.chunks(together) {
            let end = start + steps.iter().sum::<f64>();
            let right = self.x(end);
            let left = (self.x(start) + 1.5).min(right);
            canvas.rect(Rect { left, right, top, bottom }, DECODE);
            tokens.push(end);
            start = end;
        }
        if dots {
            tokens.iter().for_each(|&time| canvas.circle((self.x(time), bottom + 8.0), 3.0, INK));
        }
        together
    }

    fn draw_first_token(&self, canvas: &mut Canvas, run: &Run, top: f64, blocks: f64) {
        let x = self.x(run.prefill);
        draw_reference(canvas, (x, top + 20.0), (x, blocks + BLOCK + 8.0), 0);
        let label = format!("time to first token (TTFT): {}", duration(run.prefill));
        let fits = x + 6.0 + text_width(&label, TICK_SIZE) < RIGHT;
        let text = if fits {
            Text::new((x + 6.0, top + 34.0), label, TICK_SIZE, INK)
        } else {
            Text::new((x - 6.0, top + 34.0), label, TICK_SIZE, INK).anchor(Anchor::End)
        };
        canvas.text(text);
    }

    fn draw_decode_label(&self, canvas: &mut Canvas, run: &Run, together: usize, below: f64) {
        let Some(mean) = run.mean_step() else { return };
        let steps = if run.steps.len() == 1 { "step" } else { "steps" };
        let mut label = format!("decode: one token each, {} {steps} of {}", run.steps.len(), duration(mean));
        if together > 1 {
            label.push_str(&format!(" (a block is {together} steps)"));
        }
        let start = self.x(run.prefill).min(RIGHT - text_width(&label, TICK_SIZE)).max(LEFT);
        canvas.text(Text::new((start, below + 28.0), label, TICK_SIZE, INK));
    }
}

/// How many steps one block stands for: a round number that makes the block wide enough.
fn group_size(step_width: f64) -> usize {
    let sizes = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000];
    sizes.into_iter().find(|size| *size as f64 * step_width >= NARROWEST).unwrap_or(10_000)
}

//! Prefill and decode on a time axis: one long step over the whole prompt, then a short one per token.

use super::drawing::axis::Axis;
use super::drawing::chart::{Chart, chart_methods, check_value};
use super::drawing::label::{Label, Place};
use super::drawing::scene::{Key, Mark, Scene, Xy};
use super::drawing::style::{INK, LABEL_SIZE, Look, PALETTE, Stroke, WIDTH};
use super::drawing::text::{Anchor, BOLD, shortened};
use crate::error::{Error, Result};
use crate::measure::Timing;
use crate::report::number::{duration, significant, time_unit, whole};
use crate::report::{Cell, Number, Table};

/// About the width of the time axis, in pixels.
const ACROSS: f64 = WIDTH - 36.0;
const BLOCK: f64 = 34.0;
/// Blocks narrower than this would run into each other: one block then stands for several steps.
const NARROWEST: f64 = 5.0;
const PREFILL: Look = PALETTE[0];
const DECODE: Look = PALETTE[1];
/// A new token: ink on any block.
const TOKEN: Look = Look { color: INK, ..PALETTE[0] };

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
    chart: Chart,
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
        Self { chart: Chart::new(title), runs: Vec::new() }
    }

    /// Adds a run: its name (`""` for none), the tokens of its prompt, the seconds of its prefill, and
    /// the seconds of each decode step. Where only their mean is known, `[mean; 20]` draws 20 steps.
    ///
    /// # Errors
    /// Times that are negative, NaN or infinite.
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
            check_value(&name, part, seconds.into())?;
            if seconds < 0.0 {
                return Err(Error::input(format!("`{}`: a {part} time of {seconds} s", self.chart.title))
                    .hint("times must be zero seconds or more"));
            }
        }
        self.runs.push(Run { name, prompt_tokens, prefill, steps });
        Ok(self)
    }

    /// Adds a run as it was measured, each step with its median over the repeats. The whole is the sum of these, not
    /// the median of the whole, which the small print says unless it says something else.
    ///
    /// # Errors
    /// A timing without tokens.
    pub fn timing(self, name: impl Into<String>, timing: &Timing) -> Result<Self> {
        let seconds: Vec<f64> = timing.token_ms.iter().map(|ms| ms / 1e3).collect();
        let Some((prefill, steps)) = seconds.split_first() else {
            return Err(Error::input(format!("`{}`: the timing has no tokens", self.chart.title))
                .hint("measure with at least one new token"));
        };
        let mut timeline = self.run(name, timing.prompt_tokens, *prefill, steps.to_vec())?;
        if timing.runs.runs.len() > 1 && timeline.chart.note.is_empty() {
            timeline.chart.note = "each step is a median of its runs, the total their sum".to_owned();
        }
        Ok(timeline)
    }

    /// The diagram's numbers as a table, one row per run.
    pub fn table(&self) -> Table {
        let (unit, unit_name) = time_unit(self.longest());
        let mut table = self.chart.table([
            ("run", ""),
            ("prompt", "tokens"),
            ("prefill (TTFT)", unit_name),
            ("decode steps", ""),
            ("mean step", unit_name),
            ("total", unit_name),
        ]);
        for run in &self.runs {
            let mean = run.mean_step().map_or(Cell::Missing, |step| Cell::Number(step / unit));
            let (prefill, total) = (run.prefill / unit, run.total() / unit);
            table = table.row((&run.name, run.prompt_tokens, prefill, run.steps.len(), mean, total));
        }
        table
    }

    fn longest(&self) -> f64 {
        self.runs.iter().map(Run::total).fold(0.0, f64::max)
    }

    pub(super) fn scene(&self) -> Result<Scene> {
        let longest = self.longest();
        self.chart.check_any(longest > 0.0, "add .run(\"name\", prompt_tokens, prefill_s, [step_s; 20])?")?;
        let (unit, unit_name) = time_unit(longest);
        // Times along the horizontal axis, pixels from the top along the vertical one.
        let height: f64 = self.runs.iter().map(Run::height).sum();
        let x = Axis { low: 0.0, ..Axis::varied(&[0.0, longest / unit], 9) }.of_unscaled(unit.recip());
        let pixel = x.high / ACROSS;
        let dots = self.runs.iter().all(|run| run.mean_step().is_none_or(|step| step >= 8.0 * pixel));
        let mut scene = Scene { grid: (true, false), height, ..Scene::new(x, Axis::bare(height, 0.0)) };
        scene.x_label = format!("time ({unit_name})");
        scene.entry("prefill", Key::Swatch(PREFILL.fill()));
        scene.entry("decode", Key::Swatch(DECODE.fill()));
        if dots {
            scene.entry("a new token comes out", Key::Marker(TOKEN));
        }
        // In the unit of the axis, unless the time is small in it.
        let written = |seconds: f64| match seconds < 0.1 * unit {
            true => duration(seconds),
            false => format!("{} {unit_name}", significant(seconds / unit, 3)),
        };
        let mut top = 0.0;
        for run in &self.runs {
            run.draw(&mut scene, top, pixel, dots, &written);
            top += run.height();
        }
        Ok(scene)
    }
}

chart_methods!(Timeline: );

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

    /// Draws the run and what there is to say about it; `pixel` is the number of seconds per pixel.
    fn draw(&self, scene: &mut Scene, mut top: f64, pixel: f64, dots: bool, written: &dyn Fn(f64) -> String) {
        let write = |text: String, at: Xy| Label::new(text, at, Place::There);
        if !self.name.is_empty() {
            let name = format!("{}: {} in all", self.name, written(self.total()));
            let name = shortened(&name, LABEL_SIZE * BOLD, ACROSS);
            scene.labels.push(Label { bold: true, ..write(name, (0.0, top + 16.0)) });
            top += 24.0;
        }
        let (blocks, below) = (top + 40.0, top + 40.0 + BLOCK);
        let together = self.draw_blocks(scene, (blocks, below), pixel, dots);
        let tokens = match self.prompt_tokens {
            1 => "the one prompt token".to_owned(),
            count => format!("all {} prompt tokens at once", whole(count as i64)),
        };
        scene.labels.push(write(format!("prefill: {tokens}"), (0.0, top + 14.0)));

        let stroke = Stroke { dash: (4, 3), ..Stroke::new(INK, 1.4) };
        scene.marks.push(Mark::Line(vec![(self.prefill, top + 20.0), (self.prefill, below + 8.0)], stroke));
        let label = format!("time to first token (TTFT): {}", written(self.prefill));
        let label = write(label, (self.prefill, top + 33.0));
        let fits = self.prefill + (label.width() + 8.0) * pixel < ACROSS * pixel;
        let (offset, anchor) = if fits { ((6.0, 0.0), Anchor::Start) } else { ((-6.0, 0.0), Anchor::End) };
        scene.labels.push(Label { place: Place::Beside { offset, anchor }, ..label });

        let Some(mean) = self.mean_step() else { return };
        let steps = if self.steps.len() == 1 { "step" } else { "steps" };
        let mut label = format!("decode: one token each, {} {steps} of {}", self.steps.len(), written(mean));
        if together > 1 {
            label.push_str(&format!(" (a block is {together} steps)"));
        }
        let label = write(label, (0.0, below + 27.0));
        let start = self.prefill.min((ACROSS - label.width() - 4.0) * pixel).max(0.0);
        scene.labels.push(Label { at: (start, below + 27.0), ..label });
    }

    /// Draws the blocks between two rows; returns how many steps a block of decode stands for.
    fn draw_blocks(&self, scene: &mut Scene, (top, bottom): (f64, f64), pixel: f64, dots: bool) -> usize {
        let mut block = |from: f64, to: f64, look: Look| {
            scene.marks.push(Mark::Block((from, top), (to, bottom), look.fill()));
        };
        block(0.0, self.prefill, PREFILL);
        let together = group_size(self.mean_step().unwrap_or(0.0) / pixel);
        let mut ends = vec![self.prefill];
        for steps in self.steps.chunks(together) {
            let start = ends[ends.len() - 1];
            let end = start + steps.iter().sum::<f64>();
            block((start + 1.5 * pixel).min(end), end, DECODE);
            ends.push(end);
        }
        let dot = |time| Mark::Point((time, bottom + 8.0), TOKEN, 2.8);
        scene.marks.extend(ends.into_iter().filter(|_| dots).map(dot));
        together
    }
}

/// How many steps one block stands for: a round number that makes the block wide enough.
fn group_size(step_width: f64) -> usize {
    let sizes = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000];
    sizes.into_iter().find(|size| *size as f64 * step_width >= NARROWEST).unwrap_or(10_000)
}

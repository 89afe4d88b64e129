//! Requests on a time axis: when each waited, was read, and got its tokens.

use plotters::style::{Color, RGBAColor};

use super::drawing::axis::{Axis, Tick};
use super::drawing::chart::{Chart, chart_methods};
use super::drawing::label::{Label, Place};
use super::drawing::scene::{Key, Mark, Scene};
use super::drawing::style::{GRID, LABEL_SIZE, MUTED, PALETTE, Stroke, WHITE, WIDTH};
use super::drawing::text::{BOLD, shortened};
use crate::error::Result;
use crate::report::Table;
use crate::report::number::{duration, significant, time_unit};
use crate::serve::{Phase, ServedRequest, ServingReport};

/// About the width of the time axis, in pixels.
const ACROSS: f64 = WIDTH - 66.0;
/// What a run's rows have together, if one row would not be higher than [`ROW`] or lower than [`LOWEST_ROW`] then.
const ROWS: f64 = 260.0;
const ROW: f64 = 20.0;
const LOWEST_ROW: f64 = 5.0;
const HEADING: f64 = 26.0;
const BATCH: f64 = 40.0;
const BELOW: f64 = 18.0;
/// New tokens nearer to each other than this many pixels are not drawn one by one.
const NARROWEST: f64 = 4.0;
const BATCH_LINE: Stroke = Stroke { color: MUTED, width: 1.4, dash: (0, 0) };

/// What a server did: for each run how many requests shared each step, and then a row for each request with its times
/// of waiting, prefill and decode, drawn to scale.
///
/// ```
/// use quantlab::generate::GenerateOptions;
/// use quantlab::report::ServingTimeline;
/// use quantlab::serve::{Request, ServerOptions, first_come, poisson_arrivals, simulate, static_batch};
///
/// let options = GenerateOptions { max_new_tokens: 20, ..GenerateOptions::default() };
/// let arrivals = poisson_arrivals(3.0, 1, vec![Request { prompt: vec![1; 60], options }; 10])?;
/// let cost = |work: &quantlab::serve::StepWork| 0.02 + 0.001 * work.tokens() as f64;
/// let picture = ServingTimeline::new("Ten requests, three a second")
///     .run("static", &simulate(&arrivals, &ServerOptions::default(), static_batch, cost)?)
///     .run("continuous", &simulate(&arrivals, &ServerOptions::default(), first_come, cost)?);
/// assert!(picture.to_svg()?.contains("continuous"));
/// # Ok::<(), quantlab::error::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct ServingTimeline {
    chart: Chart,
    runs: Vec<(String, ServingReport)>,
}

impl ServingTimeline {
    /// A picture without runs yet.
    pub fn new(title: impl Into<String>) -> Self {
        Self { chart: Chart::new(title), runs: Vec::new() }
    }

    /// Adds what a server did, with a name (`""` for none).
    #[must_use]
    pub fn run(mut self, name: impl Into<String>, report: &ServingReport) -> Self {
        self.runs.push((name.into(), report.clone()));
        self
    }

    /// The picture's numbers as a table, one row per request.
    pub fn table(&self) -> Table {
        let (unit, unit_name) = time_unit(self.longest());
        let mut table = self.chart.table([
            ("run", ""),
            ("request", ""),
            ("prompt", "tokens"),
            ("new", "tokens"),
            ("arrival", unit_name),
            ("first token", unit_name),
            ("last token", unit_name),
        ]);
        for (name, report) in &self.runs {
            for request in &report.requests {
                let times = [request.arrival_s, request.token_s[0], request.finish_s()].map(|at| at / unit);
                let new_tokens = request.tokens.len();
                table = table.row((name, request.id, request.prompt_tokens, new_tokens, times[0], times[1], times[2]));
            }
        }
        table
    }

    fn longest(&self) -> f64 {
        let requests = self.runs.iter().flat_map(|(_, report)| &report.requests);
        requests.map(ServedRequest::finish_s).fold(0.0, f64::max)
    }

    pub(super) fn scene(&self) -> Result<Scene> {
        let longest = self.longest();
        self.chart.check_any(longest > 0.0, "add .run(\"name\", &report), of a server that took some time")?;
        let (unit, unit_name) = time_unit(longest);
        // Times along the horizontal axis, pixels from the top along the vertical one.
        let height: f64 = self.runs.iter().map(|(_, report)| HEADING + BATCH + rows_height(report) + BELOW).sum();
        let x = Axis { low: 0.0, ..Axis::varied(&[0.0, longest / unit], 9) }.of_unscaled(unit.recip());
        let pixel = x.high / ACROSS;
        let mut scene = Scene { grid: (true, false), height, ..Scene::new(x, Axis::bare(height, 0.0)) };
        scene.x_label = format!("time ({unit_name})");
        for (phase, name) in [(Phase::Waiting, "waiting"), (Phase::Prefill, "prefill"), (Phase::Decode, "decode")] {
            scene.entry(name, Key::Swatch(fill(phase)));
        }
        scene.entry("requests in a step", Key::Line(BATCH_LINE));
        let requests = || self.runs.iter().flat_map(|(_, report)| &report.requests);
        let decode: f64 = requests().map(|request| request.finish_s() - request.token_s[0]).sum();
        let gaps: usize = requests().map(|request| request.token_s.len() - 1).sum();
        let seams = decode > NARROWEST * pixel * gaps as f64;
        let mut top = 0.0;
        for (name, report) in &self.runs {
            let heading = format!(
                "{}{} tokens/s, {} to the first token (median)",
                if name.is_empty() { String::new() } else { format!("{name}: ") },
                significant(report.tokens_per_s(), 3),
                report.ttft_s().at(50.0).map_or_else(|| "-".to_owned(), duration),
            );
            let heading = shortened(&heading, LABEL_SIZE * BOLD, ACROSS);
            let heading = Label::new(heading, (0.0, top + 16.0), Place::There);
            scene.labels.push(Label { bold: true, ..heading });
            draw_batch(&mut scene, report, top + HEADING, pixel);
            draw_requests(&mut scene, report, top + HEADING + BATCH, ACROSS * pixel, seams);
            top += HEADING + BATCH + rows_height(report) + BELOW;
        }
        Ok(scene)
    }
}

chart_methods!(ServingTimeline: );

fn fill(phase: Phase) -> RGBAColor {
    match phase {
        Phase::Waiting => MUTED.mix(0.35),
        Phase::Prefill => PALETTE[0].fill(),
        Phase::Decode => PALETTE[1].fill(),
    }
}

fn row_height(report: &ServingReport) -> f64 {
    (ROWS / report.requests.len() as f64).clamp(LOWEST_ROW, ROW)
}

fn rows_height(report: &ServingReport) -> f64 {
    row_height(report) * report.requests.len() as f64
}

/// Draws how many requests took part in each step.
fn draw_batch(scene: &mut Scene, report: &ServingReport, top: f64, pixel: f64) {
    let most = report.steps.iter().map(|step| step.requests).max().unwrap_or(1);
    let (bottom, scale) = (top + BATCH - 10.0, (BATCH - 12.0) / most as f64);
    let mut outline = vec![(0.0, bottom)];
    let mut last = 0.0;
    for step in &report.steps {
        let (start, end, height) = (step.start_s, step.start_s + step.seconds, bottom - scale * step.requests as f64);
        // Only where nothing ran for long enough to be seen.
        if start - last > pixel {
            outline.extend([(last, bottom), (start, bottom)]);
        }
        outline.extend([(start, height), (end, height)]);
        last = end;
    }
    outline.push((last, bottom));
    scene.marks.extend([Mark::Area(outline.clone(), GRID.to_rgba()), Mark::Line(outline, BATCH_LINE)]);
    scene.y.ticks.push(Tick { value: bottom - scale * most as f64, label: most.to_string() });
}

/// Draws a row for each request, with `seams` between new tokens.
fn draw_requests(scene: &mut Scene, report: &ServingReport, top: f64, longest: f64, seams: bool) {
    let row = row_height(report);
    let every = [1, 2, 5, 10].into_iter().find(|every| *every as f64 * row > 16.0).unwrap_or(20);
    for (place, request) in report.requests.iter().enumerate() {
        let (above, below) = (top + row * (place as f64 + 0.1), top + row * (place as f64 + 0.9));
        let middle = f64::midpoint(above, below);
        scene.marks.push(Mark::Line(vec![(0.0, below), (longest, below)], Stroke::new(GRID, 0.6)));
        if place.is_multiple_of(every) {
            scene.y.ticks.push(Tick { value: middle, label: request.id.to_string() });
        }
        let ends = request.phases.iter().skip(1).map(|(_, start)| *start).chain([request.finish_s()]);
        for ((phase, start), end) in request.phases.iter().zip(ends) {
            // Who waits has nothing: a thin bar.
            let half = if *phase == Phase::Waiting { 0.12 * row } else { 0.4 * row };
            scene.marks.push(Mark::Block((*start, middle - half), (end, middle + half), fill(*phase)));
        }
        let tokens = request.token_s.iter().take(request.token_s.len() - 1);
        let seam = |at: &f64| Mark::Line(vec![(*at, above), (*at, below)], Stroke::new(WHITE, 1.0));
        scene.marks.extend(tokens.filter(|_| seams && row > 8.0).map(seam));
    }
}

//! A real server under load, and the one on paper beside it.

use std::collections::HashSet;

use quantlab::error::Result;
use quantlab::generate::GenerateOptions;
use quantlab::measure::{RunInfo, Statistics};
use quantlab::model::Loaded;
use quantlab::report::{LinePlot, ServingTimeline, Table};
use quantlab::serve::{
    BLOCK, Plan, Request, ServedStep, ServerOptions, ServingReport, View, first_come, poisson_arrivals, serve,
    simulate, static_batch,
};
use rand::Rng;

use super::prefixes::block_key;
use super::{Job, Progress};
use crate::cases::random;
use crate::held_out_samples;

pub(super) type Scheduler = fn(&View) -> Plan;
pub(super) type Percentile<'a> = &'a dyn Fn(&[f64], f64) -> f64;
type Simulated<'a> = &'a dyn Fn(&[Job], &ServerOptions, &dyn Fn(&View) -> Plan, &dyn Fn(usize) -> f64) -> Vec<Progress>;

/// Different requests: prompts of 4 to 48 tokens of the held-out text, 4 to 18 new tokens, short ones as frequent as long ones.
///
/// # Errors
/// None in practice.
pub fn requests(loaded: &Loaded, count: usize) -> Result<Vec<Request>> {
    let mut rng = random(88);
    let mut request = |text: &str| {
        let (prompt, new) = (4 + rng.random_range(0..45), 4 + rng.random_range(0..15));
        let prompt = loaded.tokenizer.encode(text)?.into_iter().take(prompt).collect();
        let options = GenerateOptions { max_new_tokens: new, stop_at_eos: false, ..GenerateOptions::default() };
        Ok(Request { prompt, options })
    };
    held_out_samples(count, 400)?.into_iter().map(&mut request).collect()
}

/// What a simulation needs to know of requests.
pub fn jobs_of(arrivals: &[(f64, Request)]) -> Vec<Job> {
    let job = |(arrival_s, request): &(f64, Request)| Job {
        arrival_s: *arrival_s,
        prompt_tokens: request.prompt.len(),
        new_tokens: request.options.max_new_tokens,
    };
    arrivals.iter().map(job).collect()
}

/// What a step takes, as a straight line: `a + b tokens` seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepCost {
    /// Seconds of any step.
    pub a: f64,
    /// Seconds of a token.
    pub b: f64,
}

impl StepCost {
    /// Fits the line to steps: the median of the slopes between any two, and the median of what they leave. A step that
    /// something else held up has no weight in it.
    ///
    /// Source: Theil 1950; Sen 1968.
    ///
    /// # Errors
    /// Steps that all have the same number of tokens.
    pub fn fit(steps: &[ServedStep]) -> Result<Self> {
        let points: Vec<(f64, f64)> = steps.iter().map(|step| (step.tokens as f64, step.seconds)).collect();
        let slope = |(i, a): (usize, &(f64, f64))| {
            let (a, rest) = (*a, &points[i + 1..]);
            rest.iter().filter(move |b| b.0 != a.0).map(move |b| (b.1 - a.1) / (b.0 - a.0)).collect::<Vec<_>>()
        };
        let slopes: Vec<f64> = points.iter().enumerate().flat_map(slope).collect();
        let b = Statistics::of(&slopes)
            .map_err(|error| error.context("no two steps have different numbers of tokens"))?
            .median;
        let a =
            Statistics::of(&points.iter().map(|(tokens, seconds)| seconds - b * tokens).collect::<Vec<_>>())?.median;
        Ok(Self { a, b })
    }

    /// Of a step.
    pub fn seconds(&self, tokens: usize) -> f64 {
        self.a + self.b * tokens as f64
    }

    /// The line beside the steps.
    ///
    /// # Errors
    /// None in practice.
    pub fn plot(&self, steps: &[ServedStep]) -> Result<LinePlot> {
        let most = steps.iter().map(|step| step.tokens).max().unwrap_or(1);
        LinePlot::new("What a step takes")
            .x("tokens that it computes", "")
            .y("time", "ms")
            .points("steps", steps.iter().map(|step| (step.tokens, 1e3 * step.seconds)))?
            .theory("a + b tokens", [1, most].map(|tokens| (tokens, 1e3 * self.seconds(tokens))))
    }
}

impl std::fmt::Display for StepCost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a step takes {:.2} ms, and {:.3} ms for each of its tokens", 1e3 * self.a, 1e3 * self.b)
    }
}

/// Requests with a common beginning, one after the other, without and with a prefix cache.
#[derive(Debug, Clone, PartialEq)]
pub struct PrefixRun {
    /// Without, and with.
    pub reports: [ServingReport; 2],
    /// Tokens that the learner's `cached_tokens` expects to be copied.
    pub expected: usize,
}

impl PrefixRun {
    /// Six questions after the same instructions, one at a time.
    ///
    /// # Errors
    /// What the model reports.
    pub fn of(loaded: &Loaded, cached_tokens: impl Fn(&[u32], usize, &HashSet<u64>) -> usize) -> Result<Self> {
        let text = held_out_samples(8, 400)?;
        let encode = |text: &str| loaded.tokenizer.encode(text);
        let common: Vec<u32> = encode(text[0])?.into_iter().take(72).collect();
        let request = |text: &&str| {
            let prompt = common.iter().copied().chain(encode(text)?.into_iter().take(20)).collect();
            let options = GenerateOptions { max_new_tokens: 4, stop_at_eos: false, ..GenerateOptions::default() };
            Ok((0.0, Request { prompt, options }))
        };
        let arrivals: Vec<(f64, Request)> = text[1..7].iter().map(request).collect::<Result<_>>()?;
        let run = |prefix_cache| {
            let options = ServerOptions { max_running: 1, prefix_cache, ..ServerOptions::default() };
            serve(loaded, &arrivals, &options, first_come)
        };
        let reports = [run(false)?, run(true)?];
        // What is there after each request: its text, but for the last token.
        let (mut cached, mut expected) = (HashSet::new(), 0);
        for ((_, request), served) in arrivals.iter().zip(&reports[1].requests) {
            expected += cached_tokens(&request.prompt, BLOCK, &cached);
            let text = [&request.prompt[..], &served.tokens[..served.tokens.len() - 1]].concat();
            text.chunks_exact(BLOCK).fold(0, |before, tokens| {
                let key = block_key(before, tokens);
                cached.insert(key);
                key
            });
        }
        Ok(Self { reports, expected })
    }

    /// Whether both gave the same tokens.
    pub fn same_tokens(&self) -> bool {
        let [without, with] = &self.reports;
        without.requests.iter().zip(&with.requests).all(|(a, b)| a.tokens == b.tokens)
    }

    /// Tokens computed and copied, and when all were done.
    pub fn table(&self) -> Table {
        Table::new("Six requests with the same beginning")
            .column("prefix cache", "", ["without", "with"])
            .column("tokens computed", "", self.reports.iter().map(ServingReport::computed_tokens))
            .column("tokens copied", "", self.reports.iter().map(ServingReport::copied_tokens))
            .column("all six done after", "ms", self.reports.iter().map(|report| 1e3 * report.seconds()))
            .digits("all six done after", 3)
            .note(format!("your cached_tokens expects {} tokens to be copied", self.expected))
            .note(self.reports[1].run.as_ref().map_or_else(String::new, ToString::to_string))
    }
}

/// One rate of requests, measured and on paper.
#[derive(Debug, Clone, PartialEq)]
pub struct RateRun {
    /// By which scheduler.
    pub scheduler: &'static str,
    /// Requests per second.
    pub rate: f64,
    /// What the server did.
    pub report: ServingReport,
    /// What the learner's simulation expects.
    pub expected: Vec<Progress>,
}

/// Serves the requests at each rate, by the learner's scheduler and in static batches, and simulates the same.
///
/// # Errors
/// What the server reports; a plan that breaks a rule.
pub fn rate_runs(
    loaded: &Loaded,
    requests: &[Request],
    rates: &[f64],
    options: &ServerOptions,
    cost: &StepCost,
    plan: Scheduler,
    simulated: Simulated<'_>,
) -> Result<Vec<RateRun>> {
    let mut runs = Vec::new();
    for &rate in rates {
        let arrivals = poisson_arrivals(rate, 7, requests.to_vec())?;
        for (scheduler, by) in [("yours", plan), ("static batches", static_batch as Scheduler)] {
            let expected = simulated(&jobs_of(&arrivals), options, &by, &|tokens| cost.seconds(tokens));
            let report = serve(loaded, &arrivals, options, by)?;
            runs.push(RateRun { scheduler, rate, report, expected });
        }
    }
    Ok(runs)
}

/// The highest rate, drawn: when each request waited, was read, and got its tokens, by either scheduler.
pub fn served_timeline(runs: &[RateRun]) -> ServingTimeline {
    let highest = runs.iter().map(|run| run.rate).fold(0.0, f64::max);
    let picture = ServingTimeline::new("Readers at the highest rate");
    let runs = runs.iter().filter(|run| run.rate == highest);
    runs.fold(picture, |picture, run| picture.run(run.scheduler, &run.report))
}

/// From the first arrival to the last token: new tokens per second.
fn throughput(progress: &[Progress]) -> f64 {
    let last = progress.iter().filter_map(|request| request.token_s.last()).fold(0.0, |last: f64, at| last.max(*at));
    let first = progress.iter().map(|request| request.job.arrival_s).fold(f64::INFINITY, f64::min);
    progress.iter().map(|request| request.token_s.len()).sum::<usize>() as f64 / (last - first)
}

/// Times to the first token at 50 % and 90 %, in milliseconds, by the learner's `percentile`.
fn ttft_ms(all: &[f64], percentile: Percentile<'_>) -> [f64; 2] {
    [50.0, 90.0].map(|percent| 1e3 * percentile(all, percent))
}

pub(super) fn measured_ttft(report: &ServingReport) -> Vec<f64> {
    report.requests.iter().map(|request| request.ttft_s()).collect()
}

/// Throughput and times to the first token at each rate, measured and by the simulation.
pub fn rates_table(runs: &[RateRun], percentile: impl Fn(&[f64], f64) -> f64) -> Table {
    let of = |run: &RateRun| {
        let expected: Vec<f64> = run.expected.iter().map(Progress::ttft_s).collect();
        [ttft_ms(&measured_ttft(&run.report), &percentile), ttft_ms(&expected, &percentile)]
    };
    let ttft: &Vec<[[f64; 2]; 2]> = &crate::attempt(|| Ok(runs.iter().map(of).collect()));
    let column = |which: usize, at: usize| (0..runs.len()).map(move |i| Some(ttft.get(i)?[which][at]));
    Table::new("Requests at random")
        .column("requests", "/s", runs.iter().map(|run| run.rate))
        .digits("requests", 3)
        .column("scheduler", "", runs.iter().map(|run| run.scheduler))
        .column("new tokens", "/s", runs.iter().map(|run| run.report.tokens_per_s()))
        .column("simulated", "/s", runs.iter().map(|run| throughput(&run.expected)))
        .column("TTFT, p50", "ms", column(0, 0))
        .column("simulated, p50", "ms", column(1, 0))
        .column("TTFT, p90", "ms", column(0, 1))
        .column("simulated, p90", "ms", column(1, 1))
        .column("mean batch", "", runs.iter().map(|run| run.report.mean_batch()))
        .digits("mean batch", 2)
        .note("mean batch: requests in a step, on average; each row is one run")
        .note(runs.first().and_then(|run| run.report.run.as_ref()).map_or_else(String::new, RunInfo::to_string))
}

/// The time to the first token by rate, on paper, with what was measured: `requests` are served over and over
/// until there are `count` of them.
///
/// # Errors
/// A rate that is not above 0.
#[expect(clippy::too_many_arguments, reason = "a learner's functions, and what they are tried on")]
pub fn knee_plot(
    runs: &[RateRun],
    requests: &[Request],
    count: usize,
    options: &ServerOptions,
    cost: &StepCost,
    plan: Scheduler,
    simulated: Simulated<'_>,
    percentile: Percentile<'_>,
) -> Result<LinePlot> {
    let mut plot = LinePlot::new("The knee").x("requests per second", "").y("time to first token, p90", "ms").log_y();
    if runs.is_empty() {
        return Ok(plot.note("not measured yet"));
    }
    let middle = runs.iter().map(|run| run.rate).sum::<f64>() / runs.len() as f64;
    for (name, by) in [("yours", plan), ("static batches", static_batch as Scheduler)] {
        let mut curve = Vec::new();
        for step in 1..=14 {
            let rate = middle * 0.15 * f64::from(step);
            let many = requests.iter().cycle().take(count).cloned();
            let jobs = jobs_of(&poisson_arrivals(rate, 11, many)?);
            let progress = simulated(&jobs, options, &by, &|tokens| cost.seconds(tokens));
            let ttft: Vec<f64> = progress.iter().map(Progress::ttft_s).collect();
            curve.push((rate, 1e3 * percentile(&ttft, 90.0)));
        }
        plot = plot.theory(format!("{name}, simulated"), curve)?;
        let of = |run: &RateRun| (run.rate, 1e3 * percentile(&measured_ttft(&run.report), 90.0));
        plot = plot.points(format!("{name}, measured"), runs.iter().filter(|run| run.scheduler == name).map(of))?;
    }
    Ok(plot.note(format!(
        "simulated: {count} requests at each of 14 rates; measured: {} at each; right of the knee, p90 grows with \
         their number",
        requests.len()
    )))
}

/// Steps that requests take that all come at once: by the learner's scheduler, and in static batches.
///
/// # Errors
/// A plan that breaks a rule.
pub fn steps_at_once(arrivals: &[(f64, Request)], options: &ServerOptions, plan: Scheduler) -> Result<Vec<usize>> {
    let steps = |by: Scheduler| Ok(simulate(arrivals, options, by, |_| 1.0)?.steps.len());
    let steps: Vec<usize> = [plan, static_batch].into_iter().map(steps).collect::<Result<_>>()?;
    println!("{} requests at once: {} steps by your plan, {} in static batches", arrivals.len(), steps[0], steps[1]);
    Ok(steps)
}

/// How many times as many tokens per second the learner's scheduler made as static batches, at the highest rate; NaN as long as
/// nothing was measured.
pub fn batching_gain(runs: &[RateRun]) -> f64 {
    match runs {
        [.., yours, batches] => yours.report.tokens_per_s() / batches.report.tokens_per_s(),
        _ => f64::NAN,
    }
}

/// Whether every request has the tokens that the model gives it alone.
///
/// # Errors
/// What the model reports.
pub fn same_as_alone(loaded: &Loaded, requests: &[Request], runs: &[RateRun]) -> Result<Option<bool>> {
    if runs.is_empty() {
        return Ok(None);
    }
    let alone = |request: &Request| Ok(loaded.generate_tokens(&request.prompt, &request.options)?.tokens);
    let alone: Vec<Vec<u32>> = requests.iter().map(alone).collect::<Result<_>>()?;
    Ok(Some(
        runs.iter().all(|run| run.report.requests.iter().zip(&alone).all(|(served, alone)| served.tokens == *alone)),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_fitted_whatever_one_step_took() {
        let step = |tokens: usize, seconds: f64| ServedStep {
            start_s: 0.0,
            seconds,
            requests: 1,
            tokens,
            copied_tokens: 0,
            new_tokens: 1,
            held_tokens: 0,
            waiting: 0,
        };
        let mut steps: Vec<ServedStep> = [1, 2, 5, 9, 30].map(|n| step(n, 0.01 + 0.002 * n as f64)).to_vec();
        steps.push(step(3, 4.0));
        let cost = StepCost::fit(&steps).unwrap();
        assert!((cost.a - 0.01).abs() < 1e-9 && (cost.b - 0.002).abs() < 1e-9, "{cost:?}");
        assert!(StepCost::fit(&steps[..1]).is_err());
    }
}

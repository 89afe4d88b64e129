//! `run_experiment`: every configuration gets its row, whatever happens to the others.

use quantlab::measure::Clock;
use quantlab::model::ModelHub;

use super::trial::{Answer, Scenario, Trial};
use super::{Configuration, ExperimentRow, ExperimentSettings};
use crate::{Complaint, Point, Score, Verdict};

const HINTS: [&str; 3] = [
    "What has to happen for one configuration, from loading to its last text, and what if one of these steps fails?",
    "Write a function or closure that measures one configuration and returns `Result<ExperimentResult>`, with `?` inside. \
     The loop puts its result, good or bad, into the row. The model is dropped when that function ends.",
    "`let measure = |one: &Configuration| -> Result<ExperimentResult> { let loaded = Loaded::new(hub.tokenizer(model_id)?, \
     hub.model(model_id, &one.options)?, model_id, &one.name)?; ... };` For each prompt one \
     `generate_text_and_time(...)?.0` gives the text and is the warm-up; then `num_timing_runs` more of the first prompt, \
     whose latencies are averaged.",
];

/// Checks `run_experiment(clock, hub, configurations, settings, log)`.
pub fn check_run_experiment(
    yours: fn(&dyn Clock, &dyn ModelHub, &[Configuration], &ExperimentSettings, &dyn Fn(&str)) -> Vec<ExperimentRow>,
) -> Score {
    let yours: &Answer<'_> = &yours;
    let trials: Result<Vec<Trial>, Complaint> =
        Scenario::all().into_iter().map(|scenario| scenario.run(yours)).collect();
    let points: [Point<Trial>; 9] = [
        ("there is a row for each configuration, in order, under its name", Trial::named),
        ("each model is loaded with the options of its configuration", Trial::loaded),
        ("a configuration that cannot be loaded keeps its error, and the others go on", Trial::broken),
        ("the memory is that of the row's own model", Trial::memory),
        ("there is a text for each prompt: the first that was generated", Trial::texts),
        ("the latency is the mean of num_timing_runs warm runs of the first prompt", Trial::latency),
        ("the other prompts are generated from once", Trial::others_once),
        ("a model is dropped before the next is loaded", Trial::one_at_a_time),
        ("the log says what is being done", Trial::logged),
    ];
    Score::new("run_experiment", HINTS).each(&trials, &points).about(
        &trials,
        "so does one that fails later, and one without a tokenizer",
        |trials| later_failures(yours, trials),
    )
}

/// Lets one call of a model fail, from the first wait to the last timed run; and the tokenizer.
fn later_failures(yours: &Answer<'_>, trials: &[Trial]) -> Verdict {
    let [scenario, ..] = Scenario::all();
    for &call in trials.first().map_or(&[][..], |usual| &usual.some_calls) {
        scenario.clone().failing_at(call).run(yours)?.fails_in_one_row()?;
    }
    scenario.without_tokenizer().run(yours)?.fails_in_each_row()
}

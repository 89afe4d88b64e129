//! Speculative decoding with a real model: the learner's functions in a loop, and what guesses bring.

use quantlab::error::{Error, Result};
use quantlab::generate::{Draft, GenerateOptions, Speculative};
use quantlab::interrupt;
use quantlab::measure::{Metrics, RunInfo, Runs, Statistics, Uncertain, WallClock, stopwatch};
use quantlab::model::{CausalLm, KvCache, Loaded, LogitPositions, TokenBatch};
use quantlab::report::{Estimate, LinePlot, Table};
use rand::Rng;

use crate::cases::random;
use crate::tables::{medians_of, percent, places, told_apart};
use crate::{Claims, claim, held_out_samples};

/// New tokens of a run.
const NEW: usize = 20;
const LOOKUP: &str = "prompt lookup";

/// New tokens of a run that only warms up.
const FEW: usize = 2;

fn options(new_tokens: usize) -> GenerateOptions {
    GenerateOptions { max_new_tokens: new_tokens, min_new_tokens: new_tokens, ..GenerateOptions::default() }
}

/// Two beginnings to be continued: one whose continuation it has quoted before, and one that quotes nothing.
///
/// # Errors
/// A model whose context is too short.
fn beginnings(loaded: &Loaded) -> Result<Vec<(&'static str, Vec<u32>)>> {
    let text = held_out_samples(3, 600)?[1];
    let ids = loaded.tokenizer.encode(text)?;
    let (once, half) = (&ids[..ids.len().min(64)], ids.len().min(64) / 2);
    Ok(vec![
        ("a text that repeats itself", [once, &once[..half]].concat()),
        ("a text that is new", ids[..half].to_vec()),
    ])
}

/// Continues a text greedily with guesses by the learner's `look_up(ids, ngram, count)`, of which `kept(guesses, choices)` says
/// what becomes of them; returns the new tokens and the number of passes.
///
/// # Errors
/// `kept` gives no token, or more than there are choices; what the model reports.
fn with_guesses(
    loaded: &Loaded,
    ids: &[u32],
    guesses: usize,
    look_up: impl Fn(&[u32], usize, usize) -> Vec<u32>,
    kept: impl Fn(&[u32], &[u32]) -> Vec<u32>,
) -> Result<(Vec<u32>, usize)> {
    let (model, mut all, mut passes) = (&*loaded.model, ids.to_vec(), 0);
    let mut cache = model.new_cache(1, ids.len() + NEW + guesses)?;
    while all.len() < ids.len() + NEW {
        let room = ids.len() + NEW - all.len() - 1;
        let guessed = look_up(&all, 3, guesses.min(room));
        let input = [&all[cache.past_len()..], &guessed].concat();
        let positions = LogitPositions::LastN(guessed.len() + 1);
        let logits = model.forward(&TokenBatch::single(&input)?, Some(&mut cache), positions)?;
        let choices: Vec<u32> = (0..=guessed.len()).map(|at| likeliest(logits.row(0, at))).collect();
        let new = kept(&guessed, &choices);
        if new.is_empty() || new.len() > choices.len() {
            return Err(Error::input(format!("{} tokens are kept of {} choices", new.len(), choices.len())));
        }
        all.extend(new);
        model.truncate(&mut cache, all.len() - 1)?;
        passes += 1;
    }
    Ok((all.split_off(ids.len()), passes))
}

/// Of equals, the first one.
fn likeliest(logits: &[f32]) -> u32 {
    (0..logits.len()).rev().max_by(|a, b| logits[*a].total_cmp(&logits[*b])).unwrap_or(0) as u32
}

/// A text continued with the learner's own guesses.
#[derive(Debug, Clone, PartialEq)]
pub struct OwnText {
    /// Which text.
    pub text: &'static str,
    /// Passes that it took.
    pub passes: usize,
    /// Whether tokens and passes are those of the library.
    pub as_librarys: bool,
}

/// Continues both texts by [`with_guesses`], four at once.
///
/// # Errors
/// As [`with_guesses`].
pub fn own_texts(
    loaded: &Loaded,
    look_up: impl Fn(&[u32], usize, usize) -> Vec<u32>,
    kept: impl Fn(&[u32], &[u32]) -> Vec<u32>,
) -> Result<Vec<OwnText>> {
    let of = |(text, ids): &(&'static str, Vec<u32>)| {
        let (tokens, passes) = with_guesses(loaded, ids, 4, &look_up, &kept)?;
        let found = loaded.generate_speculative(ids, Draft::PromptLookup { ngram: 3 }, 4, &options(NEW))?;
        println!("{text}: {} tokens in {passes} passes", tokens.len());
        Ok(OwnText { text, passes, as_librarys: tokens == found.generated.tokens && passes == found.passes })
    };
    beginnings(loaded)?.iter().map(of).collect()
}

/// A text continued with one kind of guesses.
#[derive(Debug, Clone, PartialEq)]
pub struct DraftRun {
    /// Which text.
    pub text: &'static str,
    /// Where guesses come from.
    pub draft: String,
    /// How many at once.
    pub guesses: usize,
    /// What came out.
    pub found: Speculative,
    /// Whether that is what the model writes without guesses.
    pub same_tokens: bool,
    /// Times as fast as without guesses, paired by round.
    pub times_as_fast: Statistics,
    /// A draft's step, and a pass over all guesses and one more token, in steps of the model.
    pub costs: [f64; 2],
}

/// Continues both texts with guesses by prompt lookup and by another model, several at once, in turn with a plain run.
///
/// # Errors
/// What the models report.
pub fn draft_runs(
    loaded: &Loaded,
    draft: &Loaded,
    name: &str,
    guesses: &[usize],
    rounds: usize,
) -> Result<Vec<DraftRun>> {
    let mut runs = Vec::new();
    for (text, ids) in beginnings(loaded)? {
        let drafts = [(LOOKUP, Draft::PromptLookup { ngram: 3 }), (name, Draft::Model(&*draft.model))];
        let kinds: Vec<_> = drafts.iter().flat_map(|kind| guesses.iter().map(move |n| (*kind, *n))).collect();
        // The last place is that of the plain run.
        let (mut seconds, mut found) = (vec![Vec::new(); kinds.len() + 1], vec![None; kinds.len()]);
        let mut tokens = Vec::new();
        for round in 0..=rounds {
            interrupt::check()?;
            // The first round warms up.
            let options = options(if round == 0 { FEW } else { NEW });
            for place in places(round, seconds.len()) {
                let time = if let Some(((_, draft), n)) = kinds.get(place) {
                    let work = || loaded.generate_speculative(&ids, *draft, *n, &options);
                    let (guessed, time) = stopwatch(&WallClock, &*loaded.model, work)?;
                    found[place] = Some(guessed);
                    time
                } else {
                    let work = || loaded.generate_tokens(&ids, &options);
                    let (generated, time) = stopwatch(&WallClock, &*loaded.model, work)?;
                    tokens = generated.tokens;
                    time
                };
                if round > 0 {
                    seconds[place].push(Metrics::of(NEW, time));
                }
            }
        }
        let plain = Runs::of(seconds.pop().unwrap_or_default())?;
        for ((((draft, kind), guesses), found), seconds) in
            kinds.into_iter().zip(found.into_iter().flatten()).zip(seconds)
        {
            runs.push(DraftRun {
                text,
                draft: draft.to_owned(),
                guesses,
                same_tokens: found.generated.tokens == tokens,
                found,
                times_as_fast: plain.ratio_to(&Runs::of(seconds)?)?,
                costs: costs(&*loaded.model, kind, &ids, guesses)?,
            });
        }
    }
    Ok(runs)
}

/// What a draft's step costs after a text, and a pass over all guesses and one more token, in steps of the model: in turn, by
/// the median of the ratios.
fn costs(model: &dyn CausalLm, draft: Draft<'_>, ids: &[u32], guesses: usize) -> Result<[f64; 2]> {
    let (mut one, mut all) = (Pass::new(model, ids, 1)?, Pass::new(model, ids, guesses + 1)?);
    let mut step = match draft {
        Draft::Model(model) => Some(Pass::new(model, ids, 1)?),
        Draft::PromptLookup { .. } => None,
    };
    let mut ratios = [Vec::new(), Vec::new()];
    for round in 0..=7 {
        let base = one.seconds()?;
        let of_round = [step.as_mut().map_or(Ok(0.0), Pass::seconds)? / base, all.seconds()? / base];
        // The first round warms up.
        if round > 0 {
            ratios.iter_mut().zip(of_round).for_each(|(all, ratio)| all.push(ratio));
        }
    }
    let [step, all] = ratios.map(|ratios| Statistics::of(&ratios).map(|of| of.median));
    Ok([step?, all?])
}

/// A pass over some tokens after a text, again and again.
struct Pass<'m> {
    model: &'m dyn CausalLm,
    cache: KvCache,
    next: TokenBatch,
}

impl<'m> Pass<'m> {
    fn new(model: &'m dyn CausalLm, ids: &[u32], tokens: usize) -> Result<Self> {
        let mut cache = model.new_cache(1, ids.len() + tokens)?;
        model.forward(&TokenBatch::single(ids)?, Some(&mut cache), LogitPositions::Last)?;
        Ok(Self { model, cache, next: TokenBatch::single(&vec![ids[0]; tokens])? })
    }

    fn seconds(&mut self) -> Result<f64> {
        let Self { model, cache, next } = self;
        let past = cache.past_len();
        let pass = || model.forward(next, Some(&mut *cache), LogitPositions::LastN(next.seq_len())).map(drop);
        let seconds = stopwatch(&WallClock, *model, pass)?.1;
        model.truncate(cache, past)?;
        Ok(seconds)
    }
}

/// Times as fast with `guesses` at once from the draft model, the mean over texts.
pub fn speed_of_draft(runs: &[DraftRun], guesses: usize) -> f64 {
    let of = runs.iter().filter(|run| run.draft != LOOKUP && run.guesses == guesses);
    let speeds: Vec<f64> = of.map(|run| run.times_as_fast.median).collect();
    speeds.iter().sum::<f64>() / speeds.len() as f64
}

/// The best ratio of prompt lookup, or of the draft model.
pub fn best_speed(runs: &[DraftRun], of_lookup: bool) -> Option<f64> {
    let of = runs.iter().filter(|run| (run.draft == LOOKUP) == of_lookup);
    of.map(|run| run.times_as_fast.median).reduce(f64::max)
}

/// What holds of guesses on any machine.
pub fn guess_claims(runs: &[DraftRun]) -> Claims {
    let of_lookup: Vec<usize> = runs.iter().filter(|run| run.draft == LOOKUP).map(|run| run.found.passes).collect();
    let (again, new) = of_lookup.split_at(of_lookup.len() / 2);
    let fewer = again.iter().zip(new).all(|(again, new)| again < new);
    let same = runs.iter().all(|run| run.same_tokens);
    claim("Whatever the guesses, the text is the one that the model writes without.", same)
        .that("Prompt lookup takes fewer passes for a text that repeats itself than for one that is new.", fewer)
}

/// What guesses bring, beside what the learner's `tokens_per_pass` expects of the acceptance that was measured.
pub fn drafts_table(runs: &[DraftRun], tokens_per_pass: impl Fn(f64, usize) -> f64) -> Table {
    let expected = per_pass(runs, &tokens_per_pass);
    of_guesses("What guesses bring", runs)
        .column("right", "%", runs.iter().map(|run| Some(100.0 * run.found.acceptance()).filter(|x| x.is_finite())))
        .digits("right", 3)
        .column("tokens a pass", "", runs.iter().map(|run| run.found.tokens_per_pass()))
        .digits("tokens a pass", 3)
        .column("by formula", "", expected)
        .digits("by formula", 3)
        .note(format!("{NEW} new tokens; right: of all guesses that a pass has checked"))
}

/// What guesses cost, and how much faster the text is written: measured, and by the formula.
pub fn drafts_speed_table(runs: &[DraftRun], loaded: &Loaded, tokens_per_pass: impl Fn(f64, usize) -> f64) -> Table {
    let expected = per_pass(runs, &tokens_per_pass).into_iter();
    let speed =
        |(tokens, run): (Option<f64>, &DraftRun)| Some(tokens? / (run.costs[1] + run.guesses as f64 * run.costs[0]));
    of_guesses("How much faster", runs)
        .column("a guess", "steps", runs.iter().map(|run| run.costs[0]))
        .digits("a guess", 2)
        .column("a pass", "steps", runs.iter().map(|run| run.costs[1]))
        .digits("a pass", 3)
        .column("times as fast", "", runs.iter().map(|run| run.times_as_fast))
        .column("so it is", "", runs.iter().map(|run| told_apart(run.times_as_fast)))
        .column("by formula", "", expected.zip(runs).map(speed))
        .digits("by formula", 3)
        .note("a step is a pass of the model over one token; ratios are paired by round")
        .note("in what was measured is the prompt's pass, too, which the formula leaves out")
        .note(format!("{} | {}", RunInfo::of(loaded), medians_of(runs.first().map(|run| run.times_as_fast), "round")))
}

/// Tokens a pass by the learner's formula from the acceptance that was measured, of each run; none as long as there is no
/// formula.
fn per_pass(runs: &[DraftRun], tokens_per_pass: &dyn Fn(f64, usize) -> f64) -> Vec<Option<f64>> {
    let expected = |run: &DraftRun| {
        let acceptance = run.found.acceptance();
        acceptance.is_finite().then(|| tokens_per_pass(acceptance, run.guesses))
    };
    let found: Vec<Option<f64>> = crate::attempt(|| Ok(runs.iter().map(expected).collect()));
    (0..runs.len()).map(|index| found.get(index).copied().flatten()).collect()
}

/// A table with a row for each run.
fn of_guesses(title: &str, runs: &[DraftRun]) -> Table {
    Table::new(title)
        .column("text", "", runs.iter().map(|run| run.text))
        .column("guesses by", "", runs.iter().map(|run| run.draft.as_str()))
        .column("at once", "", runs.iter().map(|run| run.guesses))
}

/// Tokens a pass by the share of right guesses: what was measured, on the curves of the learner's formula.
///
/// # Errors
/// None in practice.
pub fn drafts_plot(runs: &[DraftRun], tokens_per_pass: impl Fn(f64, usize) -> f64) -> Result<LinePlot> {
    let mut plot = LinePlot::new("Tokens a pass").x("right guesses", "%").y("new tokens a pass", "");
    let mut counts: Vec<usize> = runs.iter().map(|run| run.guesses).collect();
    counts.sort_unstable();
    counts.dedup();
    for n in counts {
        let curve: Vec<(f64, f64)> = crate::attempt(|| {
            Ok((0..=50).map(|part| (f64::from(2 * part), tokens_per_pass(f64::from(part) / 50.0, n))).collect())
        });
        plot = plot.theory(format!("{n} guesses, by formula"), curve)?;
        let points = runs.iter().filter(|run| run.guesses == n && run.found.checked > 0);
        let points = points.map(|run| (100.0 * run.found.acceptance(), run.found.tokens_per_pass()));
        plot = plot.points(format!("{n} guesses, measured"), points)?;
    }
    Ok(plot)
}

/// Tokens drawn with guesses from another model, against what the model itself gives them.
#[derive(Debug, Clone, PartialEq)]
pub struct Draws {
    /// The likeliest tokens, those that are expected ten times at least, as texts; then all others.
    pub tokens: Vec<String>,
    /// The model's probabilities of these.
    pub p: Vec<f64>,
    /// The draft's.
    pub q: Vec<f64>,
    /// How often each came out: of the draft alone, and by the learner's rule.
    pub counts: [Vec<usize>; 2],
}

impl Draws {
    /// Draws the token after the new text `times` times from the draft, and gives it to `draw_or_keep(guess, p, q, accept, draw)`.
    ///
    /// # Errors
    /// What the models report; a token that does not exist.
    pub fn of(
        loaded: &Loaded,
        draft: &Loaded,
        times: usize,
        draw_or_keep: impl Fn(u32, &[f64], &[f64], f64, f64) -> u32,
    ) -> Result<Self> {
        let (_, ids) = &beginnings(loaded)?[1];
        let next = |loaded: &Loaded| -> Result<Vec<f64>> {
            let logits = loaded.model.forward(&TokenBatch::single(ids)?, None, LogitPositions::Last)?;
            let most = logits.row(0, 0).iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let powers: Vec<f64> = logits.row(0, 0).iter().map(|x| f64::from(x - most).exp()).collect();
            let sum: f64 = powers.iter().sum();
            Ok(powers.into_iter().map(|x| x / sum).collect())
        };
        let (p, q) = (next(loaded)?, next(draft)?);
        let mut order: Vec<usize> = (0..p.len()).collect();
        order.sort_by(|a, b| p[*b].total_cmp(&p[*a]));
        order.truncate(8);
        order.retain(|id| p[*id] * times as f64 >= 10.0);
        let place = |id: usize| order.iter().position(|other| *other == id).unwrap_or(order.len());
        let mut counts = [vec![0; order.len() + 1], vec![0; order.len() + 1]];
        let mut rng = random(80);
        let sums: Vec<f64> = q.iter().scan(0.0, |sum, q| Some(std::mem::replace(sum, *sum + q) + q)).collect();
        for _ in 0..times {
            let uniform: f64 = rng.random();
            let guess = sums.partition_point(|sum| *sum <= uniform).min(q.len() - 1);
            let token = draw_or_keep(guess as u32, &p, &q, rng.random(), rng.random()) as usize;
            counts[0][place(guess)] += 1;
            counts[1][place(token)] += 1;
        }
        let with_rest = |all: &[f64]| {
            let mut of: Vec<f64> = order.iter().map(|id| all[*id]).collect();
            of.push(1.0 - of.iter().sum::<f64>());
            of
        };
        let text = |id: &usize| Ok(format!("{:?}", loaded.tokenizer.decode(&[*id as u32])?));
        let mut tokens = order.iter().map(text).collect::<Result<Vec<_>>>()?;
        tokens.push("all others".to_owned());
        Ok(Self { tokens, p: with_rest(&p), q: with_rest(&q), counts })
    }

    /// Pearson's statistic: of the draft alone, and by the rule. Beyond [`limit`](Self::limit), chance does not explain it.
    pub fn chi_square(&self) -> [f64; 2] {
        self.counts.each_ref().map(|counts| {
            let times = counts.iter().sum::<usize>() as f64;
            let of = |(count, p): (&usize, &f64)| (*count as f64 - times * p).powi(2) / (times * p);
            counts.iter().zip(&self.p).map(of).sum()
        })
    }

    /// What chance stays below in 999 of 1000 cases.
    pub fn limit(&self) -> f64 {
        [10.83, 13.82, 16.27, 18.47, 20.52, 22.46, 24.32, 26.12][(self.p.len() - 1).clamp(1, 8) - 1]
    }

    /// Probabilities beside frequencies.
    pub fn table(&self) -> Table {
        let share = |counts: &[usize]| -> Vec<Estimate> {
            let times = counts.iter().sum::<usize>() as f64;
            let of = |count: &usize| {
                let value = *count as f64 / times;
                percent(Uncertain { value, standard_error: (value * (1.0 - value) / times).sqrt() }.into())
            };
            counts.iter().map(of).collect()
        };
        let [alone, by_rule] = self.chi_square();
        Table::new("The token after a text, drawn with guesses")
            .column("token", "", self.tokens.clone())
            .column("model", "%", self.p.iter().map(|p| 100.0 * p))
            .column("draft", "%", self.q.iter().map(|q| 100.0 * q))
            .column("drawn from the draft", "%", share(&self.counts[0]))
            .column("kept or drawn anew", "%", share(&self.counts[1]))
            .digits("model", 3)
            .digits("draft", 3)
            .note(format!(
                "chi-square against the model: {alone:.0} of the draft alone, {by_rule:.1} by the rule; chance stays below {:.1} \
                 in 999 of 1000 cases",
                self.limit()
            ))
    }
}

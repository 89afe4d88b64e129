//! The training loop, with checkpoints to go on from.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tch::{Device, Kind, Tensor};

use crate::batches::Batches;
use crate::evaluate::quick_loss;
use crate::history::{History, Point};
use crate::model::{Model, Shape};
use crate::optimizer::Optimizer;
use crate::phase::Phase;

/// Steps between two points of the loss curve.
const POINT_EVERY: u64 = 10;
/// Steps between two looks at the held-out text.
const LOOK_EVERY: u64 = 50;
const CHECKPOINT_EVERY: Duration = Duration::from_secs(90);

const CHECKPOINT: &str = "checkpoint.safetensors";
const LOSSES: &str = "loss.csv";

/// How to train.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// What for, and until when.
    pub phase: Phase,
    /// Rows per step.
    pub rows: u64,
    /// Rows that are in memory at once.
    pub rows_at_once: u64,
    /// Where to compute.
    pub device: Device,
    /// In which kind matrix products are computed.
    pub kind: Kind,
}

/// A model in training.
pub struct Run {
    /// The model.
    pub model: Model,
    /// The loss curve so far.
    pub history: History,
    optimizer: Optimizer,
    step: u64,
    seconds: f64,
    folder: PathBuf,
}

impl Run {
    /// Goes on from the checkpoint in a folder, or starts anew where there is none.
    pub fn resume(folder: &Path, seed: u64, device: Device) -> Result<Self> {
        let file = folder.join(CHECKPOINT);
        if !file.is_file() {
            let model = Model::new(Shape::EMBEDDED, seed as i64, device);
            return Ok(Self {
                optimizer: Optimizer::new(&model),
                model,
                history: History::default(),
                step: 0,
                seconds: 0.0,
                folder: folder.to_owned(),
            });
        }
        let unreadable = || format!("cannot read {}; remove it to start over", file.display());
        let tensors = Tensor::read_safetensors(&file).with_context(unreadable)?;
        let (weights, rest): (Vec<_>, Vec<_>) =
            tensors.into_iter().partition(|(name, _)| name.starts_with("transformer."));
        let model = Model::from_tensors(Shape::EMBEDDED, &weights, device).with_context(unreadable)?;
        let progress = rest.iter().find(|(name, _)| name == "progress");
        let (_, progress) = progress.with_context(unreadable)?;
        let [step, seconds, moved] = [0, 1, 2].map(|at| progress.double_value(&[at]));
        let step = step as u64;
        let mut optimizer = Optimizer::new(&model);
        optimizer.restore(&model, &rest, moved as i32).with_context(unreadable)?;
        let mut history = History::read(&folder.join(LOSSES))?;
        history.forget_after(step);
        Ok(Self { model, history, optimizer, step, seconds, folder: folder.to_owned() })
    }

    /// Goes on from the checkpoint in a folder, or starts from a file of weights, which took that many steps.
    pub fn onward(folder: &Path, weights: &Path, steps: u64, device: Device) -> Result<Self> {
        fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        // The seed is that of new weights only.
        let mut run = Self::resume(folder, 0, device)?;
        if run.step == 0 {
            let unreadable = || format!("cannot read {}; train first", weights.display());
            let tensors = Tensor::read_safetensors(weights).with_context(unreadable)?;
            run.model = Model::from_tensors(Shape::EMBEDDED, &tensors, device).with_context(unreadable)?;
            run.step = steps;
        }
        Ok(run)
    }

    /// Seconds of training so far.
    pub fn seconds(&self) -> f64 {
        self.seconds
    }

    /// Steps so far.
    pub fn steps(&self) -> u64 {
        self.step
    }

    /// Trains until the phase is done.
    pub fn train(&mut self, plan: Plan, batches: &Batches, held_out: &[u32]) -> Result<()> {
        let per_step = plan.rows * self.model.shape().positions as u64;
        let mut saved = Instant::now();
        let mut losses = Vec::new();
        let done = |run: &Self| plan.phase.done(run.step, run.step * per_step, run.seconds);
        let begun = (done(self), self.seconds);
        while done(self) < 1.0 {
            let started = Instant::now();
            let rate = plan.phase.learning_rate(self.step, done(self));
            let loss = self.step(plan, batches, rate)?;
            ensure!(loss.is_finite(), "training diverged at step {}; start over with another --seed", self.step);
            losses.push(loss);
            let look = self.step.is_multiple_of(LOOK_EVERY);
            let held_out = look.then(|| quick_loss(&self.model, held_out, plan.kind));
            self.seconds += started.elapsed().as_secs_f64();
            if self.step.is_multiple_of(POINT_EVERY) {
                let point = Point {
                    step: self.step,
                    tokens: self.step * per_step,
                    seconds: self.seconds,
                    train: losses.iter().sum::<f64>() / losses.len() as f64,
                    held_out,
                };
                losses.clear();
                let per_second = per_step as f64 / started.elapsed().as_secs_f64();
                let left = (1.0 - done(self)) / (done(self) - begun.0) * (self.seconds - begun.1);
                report(&point, rate, per_second, left);
                self.history.points.push(point);
            }
            if saved.elapsed() > CHECKPOINT_EVERY {
                self.save()?;
                saved = Instant::now();
            }
        }
        self.save()
    }

    /// One step of the optimizer; gives the loss before it.
    fn step(&mut self, plan: Plan, batches: &Batches, rate: f64) -> Result<f64> {
        for (_, parameter) in self.model.parameters() {
            parameter.shallow_clone().zero_grad();
        }
        let rounded = plan.phase.format(self.step).map(|format| self.model.rounded(format));
        let mut total = 0.0;
        for first in (0..plan.rows).step_by(plan.rows_at_once as usize) {
            let rows = plan.rows_at_once.min(plan.rows - first);
            let (inputs, targets) = batches.batch(self.step, first, rows, plan.device)?;
            let share = rows as f64 / plan.rows as f64;
            let loss = rounded.as_ref().unwrap_or(&self.model).loss(&inputs, &targets, plan.kind) * share;
            loss.backward();
            total += loss.double_value(&[]);
        }
        self.optimizer.step(&self.model, rate);
        self.step += 1;
        Ok(total)
    }

    /// Writes the checkpoint beside the old one and then puts it in its place.
    fn save(&self) -> Result<()> {
        let mut tensors: Vec<(String, Tensor)> =
            self.model.parameters().iter().map(|(name, tensor)| (name.clone(), tensor.detach())).collect();
        tensors.extend(self.optimizer.tensors(&self.model));
        let progress = Tensor::from_slice(&[self.step as f64, self.seconds, f64::from(self.optimizer.steps())]);
        tensors.push(("progress".to_owned(), progress));
        let file = self.folder.join(CHECKPOINT);
        let fresh = self.folder.join("checkpoint.new");
        Tensor::write_safetensors(&tensors, &fresh)
            .and_then(|()| Ok(fs::rename(&fresh, &file)?))
            .with_context(|| format!("cannot write {}", file.display()))?;
        self.history.write(&self.folder.join(LOSSES))
    }
}

fn report(point: &Point, rate: f64, per_second: f64, seconds_left: f64) {
    let left = seconds_left / 60.0;
    let held_out = match point.held_out {
        Some(loss) => format!("  held-out {loss:.3}"),
        None => String::new(),
    };
    println!(
        "step {:5}  {:5.2} M tokens  loss {:.3}  rate {rate:.3}  {per_second:5.0} tokens/s  {left:3.0} min left{held_out}",
        point.step,
        point.tokens as f64 / 1e6,
        point.train,
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_is_read_as_it_was_written_and_a_broken_one_is_an_error() {
        let folder = std::env::temp_dir().join(format!("embedded-run-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder for the test");
        let mut run = Run::resume(&folder, 1, Device::Cpu).expect("a new run");
        (run.step, run.seconds) = (7, 2.5);
        run.save().expect("saved");
        let again = Run::resume(&folder, 2, Device::Cpu).expect("the same run");
        fs::write(folder.join(CHECKPOINT), "broken").expect("written");
        let broken = Run::resume(&folder, 1, Device::Cpu);
        fs::remove_dir_all(&folder).expect("removed");
        assert_eq!((again.steps(), again.seconds()), (7, 2.5));
        for ((name, ours), (_, theirs)) in again.model.parameters().iter().zip(run.model.parameters()) {
            assert!(ours.equal(theirs), "{name}");
        }
        assert!(broken.is_err_and(|error| error.to_string().contains("remove it")));
    }

    #[test]
    fn finishing_starts_from_the_weights_that_ship_and_goes_on_where_it_stopped() {
        let folder = std::env::temp_dir().join(format!("embedded-finishing-{}", std::process::id()));
        let weights = folder.join("weights.safetensors");
        let onward = || Run::onward(&folder, &weights, 7, Device::Cpu);
        let too_early = onward();
        let trained = Model::new(Shape::EMBEDDED, 1, Device::Cpu);
        let tensors: Vec<_> = trained.parameters().iter().map(|(name, t)| (name.clone(), t.detach())).collect();
        Tensor::write_safetensors(&tensors, &weights).expect("written");
        let mut begun = onward().expect("a new run");
        let same = begun.model.parameters().iter().zip(trained.parameters()).all(|((_, a), (_, b))| a.equal(b));
        let at = begun.steps();
        begun.step = 9;
        begun.save().expect("saved");
        let again = onward().expect("the same run");
        fs::remove_dir_all(&folder).expect("removed");
        assert!(too_early.is_err_and(|error| error.to_string().contains("train first")));
        assert_eq!((same, at, again.steps(), again.optimizer.steps()), (true, 7, 9, 0));
    }
}

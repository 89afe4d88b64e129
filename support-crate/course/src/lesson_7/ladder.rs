//! Kernels of one format, timed in turn with the library's and with memory.

use std::fmt;

use quantlab::error::{Error, Result};
use quantlab::interrupt;
use quantlab::measure::{BUILD, Clock, MemoryReader, Statistics, WallClock, threads};
use quantlab::model::WeightMatrix;
use quantlab::report::{Estimate, Table};

use super::Work;
use crate::tables::{is_faster, medians_of};
use crate::{Complaint, ask};

/// A kernel with its name: it writes all outputs of a ladder's matrix.
pub type Step<'a> = (&'static str, &'a dyn Fn(&mut [f32]));

/// How fast kernels read a matrix, in each round one after the other, and after them the library and memory itself.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Ladder {
    /// The format of the weights.
    pub format: String,
    /// Weights of the matrix.
    pub weights: usize,
    /// Bytes of the matrix, scales included.
    pub bytes: f64,
    /// Who read: the kernels that work, `the library`, and `memory itself`.
    pub names: Vec<String>,
    /// A row for each round, of a rate in GB/s for each name.
    pub rounds: Vec<Vec<f64>>,
    /// The largest difference of each kernel's outputs from the library's, as a part of the largest output.
    pub differences: Vec<f64>,
    /// Kernels that do not work yet, with the reason.
    pub missing: Vec<String>,
}

/// What a kernel is worth beside the library's for the same format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Medal {
    /// At least 0.9 times as fast.
    Gold,
    /// At least 0.6 times as fast.
    Silver,
    /// At least 0.3 times as fast.
    Bronze,
}

impl Medal {
    /// The medal for a median of this many times the library's speed; none below 0.3.
    pub fn of(times_as_fast: f64) -> Option<Self> {
        let grades = [(0.9, Self::Gold), (0.6, Self::Silver), (0.3, Self::Bronze)];
        grades.into_iter().find(|(least, _)| times_as_fast >= *least).map(|(_, medal)| medal)
    }
}

impl fmt::Display for Medal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gold => "gold",
            Self::Silver => "silver",
            Self::Bronze => "bronze",
        })
    }
}

const LIBRARY: &str = "the library";

impl Ladder {
    /// Times kernels on a matrix of `rows` rows and a row of inputs. A kernel that is still `todo!()` is left out.
    ///
    /// # Errors
    /// No rounds; not enough memory to measure memory with; an interrupt.
    pub fn measure(
        (format, rows): (&str, usize),
        matrix: WeightMatrix<'_>,
        x: &[f32],
        rounds: usize,
        steps: &[Step<'_>],
    ) -> Result<Self> {
        if rounds == 0 {
            return Err(Error::input("no rounds").hint("six or more give a useful interval"));
        }
        let library = |y: &mut [f32]| matrix.multiply(x, y);
        let (mut y, mut expected) = (vec![0.0; rows], vec![0.0; rows]);
        library(&mut expected);
        let (mut works, mut differences, mut missing) = (Vec::new(), Vec::new(), Vec::new());
        for step in steps {
            y.fill(f32::NAN);
            match ask(|| {
                step.1(&mut y);
                Ok(())
            }) {
                Ok(()) => {
                    works.push(*step);
                    differences.push(difference(&y, &expected));
                }
                Err(Complaint::NotYet) => missing.push(format!("{}: not yet", step.0)),
                Err(complaint) => missing.push(format!("{}: {complaint}", step.0)),
            }
        }
        works.push((LIBRARY, &library));
        let bytes = bytes_of(matrix);
        let (clock, reader) = (WallClock, MemoryReader::new()?);
        let mut round = |_| {
            interrupt::check()?;
            let mut rate = |step: &Step<'_>| {
                let begin = clock.now();
                step.1(&mut y);
                let seconds = clock.now() - begin;
                std::hint::black_box(&y);
                1e-9 * bytes / seconds
            };
            let rates: Vec<f64> = works.iter().map(&mut rate).collect();
            Ok([rates, vec![reader.gb_per_s()]].concat())
        };
        let rounds = (0..rounds).map(&mut round).collect::<Result<_>>()?;
        let memory = format!("memory itself, {} threads", threads());
        let names = works.iter().map(|step| step.0.to_owned()).chain([memory]).collect();
        Ok(Self { format: format.to_owned(), weights: rows * x.len(), bytes, names, rounds, differences, missing })
    }

    /// Where a kernel stands in the lists.
    pub fn index(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|other| other == name)
    }

    /// How many kernels are the learner's own.
    pub fn kernels(&self) -> usize {
        self.differences.len()
    }

    fn statistics(&self, of: impl Fn(&[f64]) -> f64) -> Option<Statistics> {
        Statistics::of(&self.rounds.iter().map(|round| of(round)).collect::<Vec<_>>()).ok()
    }

    /// How fast one read, in GB/s.
    pub fn rate(&self, index: usize) -> Option<Statistics> {
        self.statistics(|round| round[index])
    }

    /// How many weights one read in a second, in 10^9.
    pub fn weights_per_s(&self, index: usize) -> Option<Estimate> {
        Some(Estimate::from(self.rate(index)?) * (self.weights as f64 / self.bytes))
    }

    /// How many times as fast as another one, round by round.
    pub fn against(&self, index: usize, other: usize) -> Option<Statistics> {
        self.statistics(|round| round[index] / round[other])
    }

    /// Whether a kernel is faster than the first one, by the whole interval of the ratio; `None` if either does not work yet.
    pub fn beats_first(&self, name: &str) -> Option<bool> {
        let at = self.index(name).filter(|at| *at < self.kernels())?;
        Some(is_faster(self.against(at, 0)?))
    }

    /// The part of memory's bandwidth that one reached, round by round.
    pub fn of_memory(&self, index: usize) -> Option<Statistics> {
        self.statistics(|round| round[index] / round[round.len() - 1])
    }

    /// How many times as fast as the library's, round by round.
    pub fn of_library(&self, index: usize) -> Option<Statistics> {
        self.against(index, self.kernels())
    }

    /// The fastest of the learner's own, by its median.
    pub fn best(&self) -> Option<usize> {
        let median = |index: &usize| self.rate(*index).map_or(0.0, |rate| rate.median);
        (0..self.kernels()).max_by(|a, b| median(a).total_cmp(&median(b)))
    }

    /// The part of memory's bandwidth that the learner's fastest reached, in percent.
    pub fn best_percent(&self) -> Option<f64> {
        Some(100.0 * self.of_memory(self.best()?)?.median)
    }

    /// Whether all outputs are the library's, to a part of the largest; `None` as long as there is no kernel.
    pub fn agrees(&self, within: f64) -> Option<bool> {
        (!self.differences.is_empty()).then(|| self.differences.iter().all(|difference| *difference <= within))
    }

    /// Arithmetic of one, in 10^9 operations per second, if a product of the matrix takes this work.
    pub fn gops(&self, index: usize, work: &Work) -> Option<Estimate> {
        Some(Estimate::from(self.rate(index)?) * (work.operations / self.bytes))
    }

    /// Rates, the part of memory's bandwidth, and what each is against the row above it.
    pub fn table(&self) -> Table {
        let all = || 0..self.names.len();
        let above = |index: usize| if index == 0 { None } else { self.against(index, index - 1) };
        let medians = medians_of(all().find_map(|index| self.rate(index)), "round");
        let table = Table::new(format!("{}: how fast weights are read", self.format))
            .column("by", "", self.names.clone())
            .column("read", "GB/s", all().map(|index| self.rate(index)))
            .column("of memory", "%", all().map(|index| self.of_memory(index).map(|part| Estimate::from(part) * 100.0)))
            .column("against the row above", "times as fast", all().map(above))
            .note(format!("{medians}; ratios are paired by round"))
            .note(format!("a matrix of random weights | {BUILD} build"));
        self.missing.iter().fold(table, |table, why| table.note(why.as_str()))
    }
}

fn bytes_of(matrix: WeightMatrix<'_>) -> f64 {
    (match matrix {
        WeightMatrix::Float32(weights) => size_of_val(weights),
        WeightMatrix::Int8 { values, scb, .. } => values.len() + size_of_val(scb),
        WeightMatrix::FourBit { packed, absmax, .. } => packed.len() + size_of_val(absmax),
    }) as f64
}

/// The largest difference, as a part of the largest number; infinite where one is not a number.
fn difference(a: &[f32], b: &[f32]) -> f64 {
    let largest = b.iter().fold(f32::MIN_POSITIVE, |largest, b| largest.max(b.abs()));
    let apart = a.iter().zip(b).map(|(a, b)| (a - b).abs() / largest);
    apart.fold(0.0, |most, apart| if apart.is_finite() { f64::from(apart).max(most) } else { f64::INFINITY })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Two kernels, the library, memory.
    pub fn ladder() -> Ladder {
        Ladder {
            format: "float32".to_owned(),
            weights: 250_000_000,
            bytes: 1e9,
            names: ["one sum", "vectors", LIBRARY, "memory itself, 2 threads"].map(str::to_owned).to_vec(),
            rounds: [[4.0, 8.0, 16.0, 20.0], [2.0, 6.0, 8.0, 10.0], [3.0, 6.0, 12.0, 15.0]]
                .repeat(2)
                .iter()
                .map(|round| round.to_vec())
                .collect(),
            differences: vec![1e-7, 2e-7],
            missing: vec!["rows: not yet".to_owned()],
        }
    }

    #[test]
    fn shares_are_paired_by_round() {
        let ladder = ladder();
        let times = |index| ladder.of_library(index).unwrap();
        assert_eq!((times(0).low, times(0).high, times(1).median), (0.25, 0.25, 0.5));
        assert_eq!(ladder.of_memory(2).unwrap().median, 0.8);
        assert_eq!(ladder.best_percent(), Some(40.0));
        assert_eq!((ladder.beats_first("vectors"), ladder.beats_first("rows")), (Some(true), None));
        assert_eq!((ladder.best(), ladder.kernels(), ladder.index("vectors")), (Some(1), 2, Some(1)));
        assert_eq!(
            (ladder.agrees(1e-6), ladder.agrees(1e-8), Ladder::default().agrees(1.0)),
            (Some(true), Some(false), None)
        );
        let work = Work { operations: 5e8, bytes: 1e9 };
        assert_eq!(ladder.gops(1, &work).unwrap().value, 3.0);
        assert_eq!(ladder.weights_per_s(1).unwrap().value, 1.5);
        let text = ladder.table().to_text();
        assert!(text.contains("2.00 [2.00, 3.00]") && text.contains("rows: not yet"), "{text}");
        assert_eq!((Ladder::default().best(), Ladder::default().table().rows()), (None, 0));
    }

    #[test]
    fn medals_are_for_shares_of_the_librarys_speed() {
        let medals = [1.3, 0.9, 0.89, 0.6, 0.3, 0.29].map(Medal::of);
        use Medal::{Bronze, Gold, Silver};
        assert_eq!(medals, [Some(Gold), Some(Gold), Some(Silver), Some(Silver), Some(Bronze), None]);
    }

    #[test]
    fn kernels_are_timed_and_compared_with_the_library_and_unfinished_ones_are_named() {
        let (x, weights) = (vec![1.0_f32; 64], vec![0.5_f32; 64 * 8]);
        let right = |y: &mut [f32]| y.fill(32.0);
        let wrong = |y: &mut [f32]| y.fill(16.0);
        let unfinished = |_: &mut [f32]| todo!();
        let steps: [Step<'_>; 3] = [("right", &right), ("wrong", &wrong), ("unfinished", &unfinished)];
        let ladder = Ladder::measure(("float32", 8), WeightMatrix::Float32(&weights), &x, 3, &steps).unwrap();
        assert_eq!(ladder.differences, [0.0, 0.5]);
        assert_eq!((ladder.names.len(), ladder.rounds.len(), ladder.bytes), (4, 3, 2048.0));
        assert_eq!(ladder.weights, 512);
        assert_eq!(ladder.missing, ["unfinished: not yet"]);
        assert!(ladder.rounds.iter().flatten().all(|rate| *rate > 0.0));
        assert!(Ladder::measure(("", 8), WeightMatrix::Float32(&weights), &x, 0, &steps).is_err());
        assert_eq!(difference(&[f32::NAN, 1.0], &[1.0, 1.0]), f64::INFINITY);
    }
}

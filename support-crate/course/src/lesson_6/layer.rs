//! One layer, with what goes into it.

use quantlab::error::{Error, Result};
use quantlab::model::{Loaded, Operation, trace};
use quantlab::quant::{AffineInt4, Fit, GptqOptions, Hessian};

use super::{Grid, inverse_factor};
use crate::layer;

/// Tokens whose outputs are compared.
const COMPARED: usize = 128;

/// A matrix of a model's weights, and its inputs as plain numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct CalibratedLayer {
    /// As the model calls it.
    pub name: String,
    /// Outputs.
    pub rows: usize,
    /// Inputs.
    pub columns: usize,
    /// (rows, columns), row by row.
    pub weights: Vec<f32>,
    /// What goes into it while the model reads the calibration texts: (tokens, columns), row by row.
    pub inputs: Vec<f32>,
    /// Some of them, and as many of other texts: those on which errors are measured.
    compared: [Vec<f32>; 2],
    /// The sums of squares of what comes out for these.
    outputs: [f64; 2],
    /// How many texts each of them is of.
    texts: [usize; 2],
}

/// The parts of the range that are tried where a grid is clipped: 1, 39/40, ... 9/40.
pub(super) fn parts() -> [f32; 32] {
    std::array::from_fn(|tried| 1.0 - tried as f32 / 40.0)
}

/// Rounds a row with feedback: its weights, a grid for each, and the factor; the codes.
pub type GptqRow = fn(&[f32], &[Grid], &[f64]) -> Vec<u8>;

/// A learner's functions.
#[derive(Debug, Clone, Copy)]
pub struct Methods {
    /// The grid of a range.
    pub grid_between: fn(f32, f32, u32) -> Grid,
    /// The code of a weight.
    pub code_of: fn(f32, &Grid) -> u8,
    /// The grid of a part of a group's range.
    pub clipped_grid: fn(&[f32], u32, &[f32]) -> Grid,
    /// A row with feedback.
    pub gptq_row: GptqRow,
}

/// Bits of a code, size of a group, bits for each weight, and what rounding changed.
pub type CurvePoint = (u32, usize, f64, Errors);

/// How codes were chosen, their bits, and what rounding changed.
pub type Way = (&'static str, u32, Errors);

/// The size of groups where only ways are compared.
const GROUP: usize = 64;

/// Codes of a layer, and what they stand for.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Rounded {
    /// Weights of a row that share a grid.
    pub group: usize,
    /// Of each group, row by row.
    pub grids: Vec<Grid>,
    /// Of each weight, row by row.
    pub codes: Vec<u8>,
}

impl Rounded {
    /// The weights that the codes stand for.
    pub fn restored(&self) -> Vec<f32> {
        let groups = self.codes.chunks(self.group.max(1)).zip(&self.grids);
        groups.flat_map(|(codes, grid)| codes.iter().map(|&code| grid.number(code))).collect()
    }

    /// How many codes are the same as another's.
    pub fn same_codes(&self, other: &Self) -> usize {
        self.codes.iter().zip(&other.codes).filter(|(a, b)| a == b).count()
    }
}

/// What rounding changed, in percent.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Errors {
    /// Root of the mean square of what it changed in the weights, of that of the weights.
    pub weights: f64,
    /// Root of the mean square of what it changed in the outputs on calibration texts, of that of the outputs.
    pub outputs: f64,
    /// The same on other texts.
    pub unseen: f64,
}

/// In which order the columns of a layer are rounded, and how those to come make up for each.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Feedback {
    order: Vec<usize>,
    factor: Vec<f64>,
}

impl Feedback {
    /// For columns in this order; `hessian` has them as they are.
    ///
    /// # Errors
    /// An order of other columns; as [`inverse_factor`].
    pub fn new(hessian: &[f64], order: &[usize]) -> Result<Self> {
        let n = order.len();
        let mut sorted = order.to_vec();
        sorted.sort_unstable();
        if hessian.len() != n * n || sorted.iter().enumerate().any(|(i, column)| i != *column) {
            return Err(Error::input(format!("an order of {n} columns for {} numbers", hessian.len())));
        }
        let reordered: Vec<f64> = order.iter().flat_map(|i| order.iter().map(move |j| hessian[i * n + j])).collect();
        Ok(Self { order: order.to_vec(), factor: inverse_factor(&reordered, n)? })
    }
}

/// The columns of a Hessian, those with the largest inputs first; as they are, if it has another size.
pub fn largest_first(hessian: &[f64], columns: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..columns).collect();
    if hessian.len() == columns * columns {
        order.sort_by(|a, b| hessian[b * columns + b].total_cmp(&hessian[a * columns + a]));
    }
    order
}

impl CalibratedLayer {
    /// The first matrix of the feed-forward part in the middle block of a model, with the inputs that it gets while the model
    /// reads `calibration`, and `others`.
    ///
    /// # Errors
    /// A model that cannot be traced, or has no such layer.
    pub fn of(loaded: &Loaded, calibration: &[&str], others: &[&str]) -> Result<Self> {
        let block = loaded.model.info().n_layer / 2;
        let (name, [_, columns], weights) = layer::matrix(loaded, &format!(".{block}.mlp."))?;
        let read = |texts: &[&str]| -> Result<Vec<f32>> {
            let mut inputs = Vec::new();
            for text in texts {
                let traced = trace(loaded, &loaded.tokenizer.encode(text)?)?;
                let place = (Some(block), Operation::MlpNorm);
                inputs.extend(traced.into_iter().filter(|t| (t.layer, t.operation) == place).flat_map(|t| t.values));
            }
            Ok(inputs)
        };
        let read = Self::new(name, columns, weights, read(calibration)?, read(others)?)?;
        Ok(Self { texts: [calibration.len(), others.len()], ..read })
    }

    fn new(name: String, columns: usize, weights: Vec<f32>, inputs: Vec<f32>, others: Vec<f32>) -> Result<Self> {
        let fits = |numbers: &[f32]| columns > 0 && !numbers.is_empty() && numbers.len().is_multiple_of(columns);
        if ![&weights, &inputs, &others].into_iter().all(|numbers| fits(numbers)) {
            return Err(Error::input(format!("{name}: its inputs are not whole tokens of {columns}")));
        }
        let some = |inputs: &[f32]| -> Vec<f32> {
            let every = (inputs.len() / columns).div_ceil(COMPARED);
            inputs.chunks(columns).step_by(every).flatten().copied().collect()
        };
        let compared = [some(&inputs), some(&others)];
        let rows = weights.len() / columns;
        let mut layer = Self { name, rows, columns, weights, inputs, compared, outputs: [0.0; 2], texts: [1; 2] };
        layer.outputs = layer.squares_of_outputs(&layer.weights);
        Ok(layer)
    }

    /// How many texts errors of outputs are measured on, and how many of their tokens: of calibration, and others.
    pub fn compared_on(&self) -> [(usize, usize); 2] {
        [0, 1].map(|at| (self.texts[at], self.compared[at].len() / self.columns))
    }

    /// The sizes of groups that divide a row, and are a multiple of 32.
    pub fn group_sizes(&self) -> Vec<usize> {
        (1..=self.columns / 32).map(|n| 32 * n).filter(|size| self.columns.is_multiple_of(*size)).collect()
    }

    /// Rounds each group by the grid that `grid` finds for it, to the codes that `code` finds.
    pub fn rounded(&self, group: usize, grid: impl Fn(&[f32]) -> Grid, code: fn(f32, &Grid) -> u8) -> Rounded {
        let grids: Vec<Grid> = self.weights.chunks(group).map(grid).collect();
        let groups = self.weights.chunks(group).zip(&grids);
        let codes = groups.flat_map(|(weights, grid)| weights.iter().map(|weight| code(*weight, grid))).collect();
        Rounded { group, grids, codes }
    }

    /// Rounds each group by the grid from its smallest weight to its largest.
    pub fn nearest(
        &self,
        bits: u32,
        group: usize,
        grid_between: fn(f32, f32, u32) -> Grid,
        code_of: fn(f32, &Grid) -> u8,
    ) -> Rounded {
        let whole = |weights: &[f32]| {
            let limit = |of: fn(f32, f32) -> f32| weights.iter().copied().reduce(of).unwrap_or(0.0);
            grid_between(limit(f32::min), limit(f32::max), bits)
        };
        self.rounded(group, whole, code_of)
    }

    /// The errors of 4, 3 and 2 bits in groups of every size.
    pub fn curves(
        &self,
        grid_between: fn(f32, f32, u32) -> Grid,
        code_of: fn(f32, &Grid) -> u8,
        bits_per_weight: fn(u32, usize) -> f64,
    ) -> Vec<CurvePoint> {
        let each =
            [4, 3, 2].into_iter().flat_map(|bits| self.group_sizes().into_iter().map(move |group| (bits, group)));
        each.map(|(bits, group)| {
            let rounded = self.nearest(bits, group, grid_between, code_of);
            (bits, group, bits_per_weight(bits, group), self.errors(&rounded))
        })
        .collect()
    }

    /// Groups of 64 in 4, 3 and 2 bits, on unclipped grids and on clipped ones.
    pub fn clipping(&self, clipped_grid: fn(&[f32], u32, &[f32]) -> Grid, code_of: fn(f32, &Grid) -> u8) -> Vec<Way> {
        let of = |bits: u32, parts: &[f32]| {
            self.errors(&self.rounded(GROUP, |group| clipped_grid(group, bits, parts), code_of))
        };
        [4, 3, 2].map(|bits| [("nearest", bits, of(bits, &[1.0])), ("clipped", bits, of(bits, &parts()))]).concat()
    }

    /// Groups of 64 in 4, 3 and 2 bits by every way: without inputs, on clipped grids too, and by GPTQ with columns as they
    /// lie, with the largest inputs first, and so on clipped grids.
    ///
    /// # Errors
    /// As [`Feedback::new`] and [`AffineInt4::fitted`].
    pub fn ways(&self, hessian: &[f64], methods: &Methods) -> Result<Vec<Way>> {
        if !self.columns.is_multiple_of(GROUP) {
            return Err(Error::input(format!("rows of {} weights are not whole groups of {GROUP}", self.columns)));
        }
        let Methods { grid_between, code_of, clipped_grid, gptq_row } = *methods;
        let as_they_lie = Feedback::new(hessian, &(0..self.columns).collect::<Vec<_>>())?;
        let by_size = Feedback::new(hessian, &largest_first(hessian, self.columns))?;
        let mut ways = Vec::new();
        for bits in [4, 3, 2] {
            let whole = self.nearest(bits, GROUP, grid_between, code_of);
            let clipped = self.rounded(GROUP, |group| clipped_grid(group, bits, &parts()), code_of);
            let mut add = |name, rounded: &Rounded| ways.push((name, bits, self.errors(rounded)));
            add("nearest", &whole);
            add("clipped", &clipped);
            add("HQQ", &self.librarys(bits, GROUP, Fit::Hqq)?);
            add("GPTQ, columns in turn", &self.with_feedback(&whole, &as_they_lie, gptq_row));
            add("GPTQ", &self.with_feedback(&whole, &by_size, gptq_row));
            add("GPTQ, clipped", &self.with_feedback(&clipped, &by_size, gptq_row));
        }
        Ok(ways)
    }

    /// Rounds each row with feedback, to the grids of what was rounded without.
    pub fn with_feedback(&self, without: &Rounded, feedback: &Feedback, gptq_row: GptqRow) -> Rounded {
        let Feedback { order, factor } = feedback;
        let of_row = self.columns / without.group;
        let mut codes = vec![0; self.weights.len()];
        let rows = self.weights.chunks(self.columns).zip(without.grids.chunks(of_row));
        for ((weights, grids), codes) in rows.zip(codes.chunks_mut(self.columns)) {
            let row: Vec<f32> = order.iter().map(|column| weights[*column]).collect();
            let grids: Vec<Grid> = order.iter().map(|column| grids[column / without.group]).collect();
            let rounded = gptq_row(&row, &grids, factor);
            order.iter().zip(rounded).for_each(|(column, code)| codes[*column] = code);
        }
        Rounded { codes, ..without.clone() }
    }

    /// What the library makes of it by the weights alone.
    ///
    /// # Errors
    /// As [`AffineInt4::fitted`].
    pub fn librarys(&self, bits: u32, group: usize, fit: Fit) -> Result<Rounded> {
        Ok(unpacked(&AffineInt4::fitted(&self.weights, self.columns, group, bits, fit)?, bits))
    }

    /// What the library makes of it by GPTQ with the same inputs, the largest first.
    ///
    /// # Errors
    /// As [`AffineInt4::gptq`].
    pub fn librarys_gptq(&self, bits: u32, group: usize, clipping: bool) -> Result<Rounded> {
        let mut hessian = Hessian::new(self.columns)?;
        hessian.add(&self.inputs)?;
        let options = GptqOptions { act_order: true, clipping };
        Ok(unpacked(&AffineInt4::gptq(&self.weights, &hessian, group, bits, options)?, bits))
    }

    /// What restored weights changed.
    pub fn errors(&self, rounded: &Rounded) -> Errors {
        let changes: Vec<f32> = self.weights.iter().zip(rounded.restored()).map(|(a, b)| a - b).collect();
        let square = |numbers: &[f32]| numbers.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>();
        let part = |of: f64, all: f64| 100.0 * (of / all).sqrt();
        let [outputs, unseen] = self.squares_of_outputs(&changes);
        Errors {
            weights: part(square(&changes), square(&self.weights)),
            outputs: part(outputs, self.outputs[0]),
            unseen: part(unseen, self.outputs[1]),
        }
    }

    fn squares_of_outputs(&self, weights: &[f32]) -> [f64; 2] {
        let dot = |row: &[f32], x: &[f32]| {
            let mut sums = [0.0_f32; 16];
            for (row, x) in row.chunks(16).zip(x.chunks(16)) {
                sums.iter_mut().zip(row.iter().zip(x)).for_each(|(sum, (w, x))| *sum += w * x);
            }
            sums.iter().sum::<f32>()
        };
        self.compared.each_ref().map(|inputs| {
            let of_row = |row: &[f32]| inputs.chunks(self.columns).map(|x| f64::from(dot(row, x)).powi(2)).sum::<f64>();
            weights.chunks(self.columns).map(of_row).sum()
        })
    }
}

fn unpacked(quantized: &AffineInt4, bits: u32) -> Rounded {
    let codes = quantized.packed().iter().flat_map(|byte| [byte >> 4, byte & 15]).collect();
    let last = ((1_u32 << bits) - 1) as f32;
    let scales = quantized.scales().iter().zip(quantized.minima());
    let grids = scales.map(|(&step, minimum)| Grid { step, zero: -minimum / step, last }).collect();
    Rounded { group: quantized.group_size(), grids, codes }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::{random, row};
    use crate::lesson_6::{clipping::clipping_of, hessian::damped};
    use quantlab::model::{LoadOptions, load_model};

    fn code(weight: f32, grid: &Grid) -> u8 {
        ((weight / grid.step).round_ties_even() + grid.zero).clamp(0.0, grid.last) as u8
    }

    fn grid_between(low: f32, high: f32, bits: u32) -> Grid {
        clipping_of(&[low, high], bits, &[1.0])
    }

    fn gptq_row(row: &[f32], grids: &[Grid], factor: &[f64]) -> Vec<u8> {
        let n = row.len();
        let mut left: Vec<f64> = row.iter().map(|w| f64::from(*w)).collect();
        let mut codes = Vec::new();
        for (i, u) in factor.chunks_exact(n).enumerate() {
            let code = code(left[i] as f32, &grids[i]);
            let error = (left[i] - f64::from(grids[i].number(code))) / u[i];
            (i + 1..n).for_each(|j| left[j] -= error * u[j]);
            codes.push(code);
        }
        codes
    }

    #[test]
    fn plain_loops_choose_the_codes_of_the_library() {
        let (rows, columns, mut rng) = (24, 96, random(3));
        let weights = row(&mut rng, 1, rows * columns);
        let mut inputs = row(&mut rng, 1, 300 * columns);
        // What goes together, and columns of several sizes.
        for x in inputs.chunks_exact_mut(columns) {
            (1..columns).for_each(|i| x[i] = 0.7 * x[i - 1] + x[i] * (1.0 + (i % 5) as f32));
        }
        let others = inputs.clone();
        let layer = CalibratedLayer::new("f".to_owned(), columns, weights, inputs, others).unwrap();
        // As long as `hessian` is not written.
        assert!(Feedback::new(&[], &largest_first(&[], columns)).is_err());
        assert_eq!((layer.rows, layer.group_sizes()), (rows, vec![32, 96]));
        let methods = Methods { grid_between, code_of: code, clipped_grid: clipping_of, gptq_row };
        let ways = layer.ways(&damped(&layer.inputs, columns), &methods);
        assert!(ways.is_err(), "groups of 64 do not divide 96 columns");
        for bits in [4, 3, 2] {
            let nearest = layer.rounded(32, |group| clipping_of(group, bits, &[1.0]), code);
            assert_eq!(nearest, layer.librarys(bits, 32, Fit::Nearest).unwrap());
            let hessian = damped(&layer.inputs, columns);
            let feedback = Feedback::new(&hessian, &largest_first(&hessian, columns)).unwrap();
            let gptq = layer.with_feedback(&nearest, &feedback, gptq_row);
            let theirs = layer.librarys_gptq(bits, 32, false).unwrap();
            assert!(gptq.same_codes(&theirs) * 100 > 98 * rows * columns, "{}", gptq.same_codes(&theirs));
            let (with, without) = (layer.errors(&gptq), layer.errors(&nearest));
            assert!(with.outputs < 0.8 * without.outputs && with.weights > without.weights, "{with:?} {without:?}");
        }
        assert!(Feedback::new(&[1.0; 4], &[0, 0]).is_err());
    }

    #[test]
    fn a_layer_of_a_model_comes_with_its_inputs() {
        let loaded = load_model(&["embedded"], &LoadOptions::default()).unwrap();
        let layer = CalibratedLayer::of(&loaded, &["Once upon a time"], &["there lived a fisher"]).unwrap();
        assert_eq!((layer.name.as_str(), layer.rows, layer.columns), ("transformer.h.2.mlp.c_fc.weight", 1024, 256));
        let tokens = loaded.tokenizer.encode("Once upon a time").unwrap().len();
        assert_eq!(layer.inputs.len(), tokens * 256);
        let others = loaded.tokenizer.encode("there lived a fisher").unwrap().len();
        assert_eq!(layer.compared_on(), [(1, tokens), (1, others)]);
        // What comes out, by the model's own numbers: c_fc of what was traced, before the activation and the bias.
        assert!(layer.outputs[0] > 0.0 && layer.errors(&layer.librarys(4, 64, Fit::Nearest).unwrap()).outputs < 20.0);
    }
}

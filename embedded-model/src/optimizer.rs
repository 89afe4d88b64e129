//! The optimizer: Muon for the matrices of the blocks, AdamW for everything else.
//!
//! Muon moves a matrix along the nearest orthogonal matrix to its momentum. It learns more from a token
//! than AdamW, which counts where tokens are dear, as they are on a CPU.

use anyhow::{Context, Result};
use tch::{Kind, Tensor, no_grad};

use crate::model::{Model, is_hidden_matrix};

const MUON_RATE: f64 = 0.02;
const MUON_MOMENTUM: f64 = 0.95;
const MUON_DECAY: f64 = 0.05;
const ADAM_RATE: f64 = 3e-3;
const ADAM_BETAS: (f64, f64) = (0.9, 0.95);
const ADAM_EPSILON: f64 = 1e-8;
const ADAM_DECAY: f64 = 0.1;
const LONGEST_GRADIENT: f64 = 1.0;

/// What is remembered about one parameter.
enum Memory {
    Muon { momentum: Tensor },
    Adam { mean: Tensor, square: Tensor },
}

/// The optimizer of a model.
pub struct Optimizer {
    memory: Vec<Memory>,
    steps: i32,
}

impl Optimizer {
    /// Starts without memory.
    pub fn new(model: &Model) -> Self {
        let start = |(name, tensor): &(String, Tensor)| {
            let zeros = || no_grad(|| tensor.zeros_like());
            if is_hidden_matrix(name, tensor) {
                Memory::Muon { momentum: zeros() }
            } else {
                Memory::Adam { mean: zeros(), square: zeros() }
            }
        };
        Self { memory: model.parameters().iter().map(start).collect(), steps: 0 }
    }

    /// The memory under names that belong to the parameters, to be saved.
    pub fn tensors(&self, model: &Model) -> Vec<(String, Tensor)> {
        let named = model.parameters().iter().zip(&self.memory);
        named
            .flat_map(|((name, _), memory)| match memory {
                Memory::Muon { momentum } => vec![(format!("muon.{name}"), momentum.shallow_clone())],
                Memory::Adam { mean, square } => vec![
                    (format!("adam.mean.{name}"), mean.shallow_clone()),
                    (format!("adam.square.{name}"), square.shallow_clone()),
                ],
            })
            .collect()
    }

    /// Steps so far.
    pub fn steps(&self) -> i32 {
        self.steps
    }

    /// Takes back what `tensors` gave, after a number of steps.
    pub fn restore(&mut self, model: &Model, saved: &[(String, Tensor)], steps: i32) -> Result<()> {
        let find = |key: String| {
            let found = saved.iter().find(|(name, _)| *name == key);
            found.with_context(|| format!("the checkpoint lacks {key}"))
        };
        for ((name, _), memory) in model.parameters().iter().zip(&mut self.memory) {
            match memory {
                Memory::Muon { momentum } => momentum.copy_(&find(format!("muon.{name}"))?.1),
                Memory::Adam { mean, square } => {
                    mean.copy_(&find(format!("adam.mean.{name}"))?.1);
                    square.copy_(&find(format!("adam.square.{name}"))?.1);
                }
            }
        }
        self.steps = steps;
        Ok(())
    }

    /// Moves every parameter against its gradient, at a fraction `rate` of the full learning rate.
    pub fn step(&mut self, model: &Model, rate: f64) {
        no_grad(|| {
            self.steps += 1;
            let gradients: Vec<Tensor> = model.parameters().iter().map(|(_, p)| p.grad()).collect();
            let scale = clip_factor(&gradients);
            for (((_, parameter), gradient), memory) in model.parameters().iter().zip(&gradients).zip(&mut self.memory)
            {
                let mut parameter = parameter.shallow_clone();
                let gradient = gradient * scale;
                match memory {
                    Memory::Muon { momentum } => muon(&mut parameter, &gradient, momentum, rate),
                    Memory::Adam { mean, square } => {
                        adam(&mut parameter, &gradient, mean, square, rate, self.steps);
                    }
                }
            }
        });
    }
}

/// Shortens the gradient of the whole model to the longest that is allowed.
fn clip_factor(gradients: &[Tensor]) -> f64 {
    let square = |gradient: &Tensor| gradient.norm().double_value(&[]).powi(2);
    let length = gradients.iter().map(square).sum::<f64>().sqrt();
    (LONGEST_GRADIENT / (length + 1e-6)).min(1.0)
}

fn adam(parameter: &mut Tensor, gradient: &Tensor, mean: &mut Tensor, square: &mut Tensor, rate: f64, steps: i32) {
    let (first, second) = ADAM_BETAS;
    let _ = mean.lerp_(gradient, 1.0 - first);
    let _ = square.lerp_(&gradient.square(), 1.0 - second);
    let root = (&*square / (1.0 - second.powi(steps))).sqrt() + ADAM_EPSILON;
    let update = &*mean / (1.0 - first.powi(steps)) / root;
    let rate = rate * ADAM_RATE;
    // Biases and norms have no reason to be small.
    if parameter.dim() == 2 {
        *parameter *= 1.0 - rate * ADAM_DECAY;
    }
    *parameter -= update * rate;
}

fn muon(parameter: &mut Tensor, gradient: &Tensor, momentum: &mut Tensor, rate: f64) {
    let _ = momentum.lerp_(gradient, 1.0 - MUON_MOMENTUM);
    let ahead = gradient.lerp(&*momentum, MUON_MOMENTUM);
    let (inputs, outputs) = ahead.size2().unwrap_or((1, 1));
    let update = if outputs == 3 * inputs {
        // Query, key and value are three matrices that happen to be stored as one.
        let parts: Vec<Tensor> = ahead.chunk(3, 1).iter().map(orthogonal).collect();
        Tensor::cat(&parts, 1)
    } else {
        orthogonal(&ahead) * (outputs as f64 / inputs as f64).max(1.0).sqrt()
    };
    let rate = rate * MUON_RATE;
    *parameter *= 1.0 - rate * MUON_DECAY;
    *parameter -= update * rate;
}

/// The nearest orthogonal matrix, nearly: five steps of a Newton-Schulz iteration whose polynomial
/// brings every singular value close to one.
fn orthogonal(matrix: &Tensor) -> Tensor {
    const A: f64 = 3.4445;
    const B: f64 = -4.7750;
    const C: f64 = 2.0315;
    let (rows, columns) = matrix.size2().unwrap_or((1, 1));
    let wide = if rows > columns { matrix.tr() } else { matrix.shallow_clone() };
    let length = wide.norm().double_value(&[]) + 1e-7;
    let mut x = (wide / length).to_kind(Kind::BFloat16);
    for _ in 0..5 {
        let gram = x.matmul(&x.tr());
        let polynomial = &gram * B + gram.matmul(&gram) * C;
        x = &x * A + polynomial.matmul(&x);
    }
    let x = x.to_kind(Kind::Float);
    if rows > columns { x.tr() } else { x }
}

#[cfg(test)]
mod tests {
    use tch::Device;

    use super::*;
    use crate::model::{Shape, seeded};

    const TINY: Shape = Shape { vocabulary: 32, positions: 16, width: 16, layers: 1, heads: 2 };

    #[test]
    fn singular_values_become_about_one() {
        let matrix = seeded(3, || Tensor::randn([24, 8], (Kind::Float, Device::Cpu)));
        let (_, values, _) = orthogonal(&matrix).svd(true, false);
        let (low, high) = (values.min().double_value(&[]), values.max().double_value(&[]));
        assert!(low > 0.5 && high < 1.5, "{low} {high}");
    }

    fn train(model: &Model, optimizer: &mut Optimizer, steps: usize) -> f64 {
        let tokens = Tensor::from_slice2(&[[1_i64, 2, 3, 4, 5, 6, 7, 8]]);
        let (inputs, targets) = (tokens.narrow(1, 0, 7), tokens.narrow(1, 1, 7));
        let mut last = f64::NAN;
        for _ in 0..steps {
            for (_, parameter) in model.parameters() {
                parameter.shallow_clone().zero_grad();
            }
            let loss = model.loss(&inputs, &targets, Kind::Float);
            loss.backward();
            optimizer.step(model, 1.0);
            last = loss.double_value(&[]);
        }
        last
    }

    #[test]
    fn a_short_text_is_learned_by_heart() {
        let model = Model::new(TINY, 1, Device::Cpu);
        let loss = train(&model, &mut Optimizer::new(&model), 60);
        assert!(loss < 1.0, "{loss}");
    }

    #[test]
    fn a_restored_optimizer_goes_on_as_if_nothing_had_happened() {
        let model = Model::new(TINY, 1, Device::Cpu);
        let mut optimizer = Optimizer::new(&model);
        train(&model, &mut optimizer, 5);
        let weights: Vec<_> =
            model.parameters().iter().map(|(name, tensor)| (name.clone(), tensor.detach().copy())).collect();
        let memory: Vec<_> =
            optimizer.tensors(&model).into_iter().map(|(name, tensor)| (name, tensor.copy())).collect();
        let straight = train(&model, &mut optimizer, 3);

        let model = Model::from_tensors(TINY, &weights, Device::Cpu).expect("weights");
        let mut optimizer = Optimizer::new(&model);
        optimizer.restore(&model, &memory, 5).expect("memory");
        let resumed = train(&model, &mut optimizer, 3);
        assert!((straight - resumed).abs() < 1e-4, "{straight} {resumed}");
    }
}

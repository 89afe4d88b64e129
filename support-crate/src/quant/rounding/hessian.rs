//! How the inputs of a layer belong together: what GPTQ calls the Hessian.

use quantlab_kernels::{Epilogue, Matrix, Scratch, ThreadScope, matmul, thread_scope};

use crate::error::{Error, Result};
use crate::quant::float::{absolute_maximum, check_finite, count_rows};

/// Rows of a panel. Larger ones would hold more numbers above the diagonal; smaller ones are multiplied more slowly.
const PANEL: usize = 128;

/// Tokens that are added at once.
const TOKENS: usize = 512;

/// The sum of `x x^T` over the inputs `x` of a layer: the mean square of a change of its outputs is a quadratic form of
/// the change of its weights with this matrix, but for a factor.
///
/// It is symmetric, and only its lower half is kept: rows in panels, each as long as its last row needs.
///
/// ```
/// use quantlab::quant::Hessian;
///
/// let mut hessian = Hessian::new(2)?;
/// hessian.add(&[1.0, 2.0, 3.0, -1.0])?;
/// assert_eq!((hessian.row(0), hessian.row(1)), (&[10.0][..], &[-1.0, 5.0][..]));
/// assert_eq!(hessian.tokens(), 2);
/// # Ok::<(), quantlab::error::Error>(())
/// ```
#[derive(Clone, PartialEq)]
pub struct Hessian {
    columns: usize,
    tokens: usize,
    panels: Vec<f32>,
}

impl Hessian {
    /// Of no inputs yet, `columns` for each token.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn new(columns: usize) -> Result<Self> {
        let none = |_| Error::system(format!("no memory for a Hessian of {columns} inputs: {} bytes", bytes(columns)));
        let mut panels = Vec::new();
        panels.try_reserve_exact(bytes(columns) / size_of::<f32>()).map_err(none)?;
        panels.resize(start(columns), 0.0);
        Ok(Self { columns, tokens: 0, panels })
    }

    /// Adds the inputs of some tokens, (tokens, columns).
    ///
    /// # Errors
    /// Inputs that are not whole tokens, or of which one is NaN or infinite. They are then not added.
    pub fn add(&mut self, inputs: &[f32]) -> Result<()> {
        self.add_in(&thread_scope(), inputs)
    }

    /// The same with these threads.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub(super) fn add_in(&mut self, scope: &ThreadScope, inputs: &[f32]) -> Result<()> {
        let k = self.columns;
        let tokens = count_rows("inputs", inputs.len(), k)?;
        check_finite("input", inputs)?;
        self.tokens += tokens;
        for inputs in inputs.chunks(TOKENS * k) {
            let tokens = inputs.len() / k;
            // Products are along rows.
            let mut features = Scratch::<f32>::uninit(inputs.len()); // (columns, tokens)
            scope.split_mut(&mut features, tokens, 4 * tokens, &|first, some| {
                for (token, inputs) in inputs.chunks_exact(k).enumerate() {
                    some.chunks_exact_mut(tokens).zip(&inputs[first..]).for_each(|(row, &input)| row[token] = input);
                }
            });
            for first in (0..k).step_by(PANEL) {
                let last = k.min(first + PANEL);
                let panel = &mut self.panels[start(first)..][..(last - first) * last];
                let matrix = Matrix { weights: &&features[..last * tokens], n: last, k: tokens };
                let epilogue = Epilogue { accumulate: true, ..Epilogue::default() };
                matmul(scope, &features[first * tokens..last * tokens], matrix, epilogue, panel);
            }
        }
        Ok(())
    }

    /// Inputs of a token (`in_features`).
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// How many tokens were added.
    pub fn tokens(&self) -> usize {
        self.tokens
    }

    /// A row up to the diagonal.
    ///
    /// # Panics
    /// There is no such row.
    pub fn row(&self, row: usize) -> &[f32] {
        assert!(row < self.columns, "row {row} of {}", self.columns);
        let first = row / PANEL * PANEL;
        let width = self.columns.min(first + PANEL);
        &self.panels[start(first) + (row - first) * width..][..=row]
    }

    /// The diagonal: for each input, the sum of its squares.
    pub fn diagonal(&self) -> Vec<f32> {
        (0..self.columns).map(|row| self.row(row)[row]).collect()
    }

    /// Makes sure that no sum is NaN or infinite.
    ///
    /// # Errors
    /// One is: inputs were too large.
    pub(in crate::quant) fn check(&self) -> Result<()> {
        match absolute_maximum(&self.panels) {
            Some(_) => Ok(()),
            None => Err(Error::input("the squares of its inputs are beyond float32")),
        }
    }
}

/// Where the panel that begins with a row lies, which is a multiple of [`PANEL`]; or, for the number of rows, where the
/// last ends.
fn start(row: usize) -> usize {
    let (panels, rest) = (row / PANEL, row % PANEL);
    PANEL * PANEL * panels * (panels + 1) / 2 + rest * row
}

/// Bytes of a Hessian, which fit into a `usize` for the inputs of any layer that there is.
pub(crate) fn bytes(columns: usize) -> usize {
    let panels = columns.div_ceil(PANEL);
    (PANEL * PANEL * size_of::<f32>()).saturating_mul(panels.saturating_mul(panels + 1) / 2)
}

/// Millions of numbers would be of no use.
impl std::fmt::Debug for Hessian {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Hessian {{ columns: {}, tokens: {} }}", self.columns, self.tokens)
    }
}

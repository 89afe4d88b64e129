//! Matrices in Q8_0, multiplied where their file is mapped.

use quantlab_kernels::{Product, Q8_0Rows, Weights as KernelWeights};

use super::{Operands, QuantizedWeight, StateBytes, not_of_blocks};
use crate::error::Result;
use crate::model::weights::{BlockRows, StateTensor};

/// The blocks of a GGUF file, as they are.
#[derive(Debug)]
pub(in crate::model) struct Q8_0Matrix {
    rows: BlockRows,
    order: Option<Vec<u32>>,
}

impl Q8_0Matrix {
    /// # Errors
    /// A scale that is NaN or infinite, if that is not allowed.
    pub fn new(rows: BlockRows, check_finite: bool) -> Result<Self> {
        if check_finite {
            rows.check_finite()?;
        }
        Ok(Self { order: rows.order(), rows })
    }
}

impl KernelWeights for Q8_0Matrix {
    fn multiply(&self, product: Product<'_>) {
        Q8_0Rows { bytes: self.rows.in_file(), order: self.order.as_deref() }.multiply(product);
    }
}

impl QuantizedWeight for Q8_0Matrix {
    fn shape(&self) -> [usize; 2] {
        self.rows.shape()
    }

    fn code_bytes(&self) -> usize {
        self.shape().iter().product()
    }

    fn state_bytes(&self) -> StateBytes {
        StateBytes { all: self.rows.bytes().0 - self.code_bytes(), unread: 0 }
    }

    fn mapped_bytes(&self) -> usize {
        self.rows.bytes().1
    }

    fn operands(&self) -> Option<Operands<'_>> {
        None
    }

    fn forget_codes(&mut self) {}

    fn state_dict<'a>(&'a self, _: &str) -> Result<Vec<StateTensor<'a>>> {
        Err(not_of_blocks())
    }
}

//! The tensors that a checkpoint has for a layer.

use half::{bf16, f16};
use safetensors::Dtype;

use crate::buffer::Buffer;
use crate::error::{Error, Result};
use crate::quant::{e4m3, e8m0};

/// A tensor as a file has it.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub name: String,
    pub dtype: Dtype,
    pub shape: Vec<usize>,
    /// Its numbers, little-endian.
    pub bytes: Buffer<u8>,
}

/// Where a layer's tensors are found.
pub(crate) trait Parts {
    /// The tensor `LAYER.part`, if there is one.
    ///
    /// # Errors
    /// What the file reports.
    fn find(&self, part: &str) -> Result<Option<Part>>;

    /// # Errors
    /// As [`find`](Self::find); there is none.
    fn get(&self, part: &str) -> Result<Part> {
        self.find(part)?.ok_or_else(|| {
            Error::format(format!("it has no tensor `{part}`"))
                .hint("the checkpoint is damaged, or its `quantization_config` belongs to another model")
        })
    }
}

impl Part {
    /// The bytes of a tensor of this type and shape.
    ///
    /// # Errors
    /// Another type or shape.
    pub fn bytes_of(self, dtypes: &[Dtype], shape: &[usize]) -> Result<Buffer<u8>> {
        self.check(dtypes, shape)?;
        Ok(self.bytes)
    }

    fn check(&self, dtypes: &[Dtype], shape: &[usize]) -> Result<()> {
        let Self { name, dtype, shape: found, .. } = self;
        if !dtypes.contains(dtype) {
            return Err(Error::format(format!("`{name}` holds {dtype:?}, expected {dtypes:?}")));
        }
        if found != shape {
            return Err(Error::format(format!("`{name}` has shape {found:?}, expected {shape:?}"))
                .hint("do config.json, its `quantization_config` and the weights belong to the same model?"));
        }
        Ok(())
    }

    /// Words of 32 bits, in this shape.
    ///
    /// # Errors
    /// Another type or shape.
    pub fn words(self, shape: &[usize]) -> Result<Vec<u32>> {
        let bytes = self.bytes_of(&[Dtype::I32, Dtype::U32], shape)?;
        Ok(bytes.as_chunks().0.iter().map(|&word| u32::from_le_bytes(word)).collect())
    }

    /// Whole numbers, so many of them in any shape.
    ///
    /// # Errors
    /// Numbers of another type, or more or fewer of them.
    pub fn whole_numbers(self, count: usize) -> Result<Vec<i64>> {
        let numbers: Vec<i64> = match self.dtype {
            Dtype::I64 => self.bytes.as_chunks().0.iter().map(|&bytes| i64::from_le_bytes(bytes)).collect(),
            Dtype::I32 => self.bytes.as_chunks().0.iter().map(|&bytes| i32::from_le_bytes(bytes).into()).collect(),
            other => return Err(Error::format(format!("`{}` holds {other:?}, expected whole numbers", self.name))),
        };
        if numbers.len() == count {
            return Ok(numbers);
        }
        Err(Error::format(format!("`{}` holds {} numbers, expected {count}", self.name, numbers.len())))
    }

    /// Scales or zero points, in one of these shapes, all of them finite.
    ///
    /// # Errors
    /// Numbers of another type, another shape, a number that is NaN or infinite.
    pub fn floats(self, shapes: &[&[usize]]) -> Result<Vec<f32>> {
        self.scales(&[Dtype::F32, Dtype::BF16, Dtype::F16, Dtype::F8_E4M3, Dtype::I8], shapes)
    }

    /// The scales of a microscaling format, powers of two in E8M0, which PyTorch had no type for.
    ///
    /// # Errors
    /// As [`floats`](Self::floats).
    pub fn exponents(self, shapes: &[&[usize]]) -> Result<Vec<f32>> {
        self.scales(&[Dtype::U8, Dtype::F8_E8M0], shapes)
    }

    fn scales(self, dtypes: &[Dtype], shapes: &[&[usize]]) -> Result<Vec<f32>> {
        use Dtype::{BF16, F8_E4M3, F8_E8M0, F16, F32, U8};
        let shape = shapes.iter().find(|&&shape| shape == self.shape).or(shapes.first()).copied().unwrap_or_default();
        self.check(dtypes, shape)?;
        let bytes = &*self.bytes;
        let numbers: Vec<f32> = match self.dtype {
            F32 => bytes.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect(),
            BF16 => bytes.as_chunks().0.iter().map(|&bytes| bf16::from_le_bytes(bytes).to_f32()).collect(),
            F16 => bytes.as_chunks().0.iter().map(|&bytes| f16::from_le_bytes(bytes).to_f32()).collect(),
            F8_E4M3 => bytes.iter().copied().map(e4m3).collect(),
            F8_E8M0 | U8 => bytes.iter().copied().map(e8m0).collect(),
            _ => bytes.iter().map(|&byte| f32::from(byte.cast_signed())).collect(),
        };
        match numbers.iter().position(|number| !number.is_finite()) {
            None => Ok(numbers),
            Some(index) => Err(Error::format(format!("`{}`: number {index} is {}", self.name, numbers[index]))
                .hint("the checkpoint is damaged, or its quantization went wrong")),
        }
    }
}

/// A matrix by columns as one by rows.
pub(super) fn transposed<T: Copy>(numbers: &[T], columns: usize) -> Vec<T> {
    (0..columns).flat_map(|column| numbers.iter().skip(column).step_by(columns).copied()).collect()
}

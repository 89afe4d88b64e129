//! candle's tensors and operations.

use std::ops::Range;

use candle_core::{DType, Device as CandleDevice, Tensor, WithDType};
use quantlab_kernels::{INTEGERS, LARGEST, PER_PRODUCT, PER_STEP};

use super::quantized::SHIFT;
use super::{FourBitTensors, Int8Tensors, Operations};
use crate::buffer::Buffer;
use crate::error::{Error, Result};
use crate::model::weights::{UnreadTensor, Wanted};
use crate::model::{Activation, Device, Precision};

pub(in crate::model) struct Candle {
    candle: CandleDevice,
    /// [`Precision::computed_on`] the device.
    compute: DType,
}

impl Candle {
    /// # Errors
    /// This build has no support for the device, or the device is not there.
    pub fn new(device: Device, dtype: Precision) -> Result<Self> {
        let compute = dtype.computed_on(device).to_candle();
        Ok(Self { candle: Self::device(device)?, compute })
    }

    /// The same device, as candle calls it.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn device(device: Device) -> Result<CandleDevice> {
        match device {
            Device::Cpu => Ok(CandleDevice::Cpu),
            Device::Cuda(index) => CandleDevice::new_cuda(index)
                .map_err(|cause| Error::from(cause).context(format!("cannot use {device}")).hint("use `Device::Cpu`")),
        }
    }

    /// Numbers in main memory as a tensor on the device.
    fn tensor<T: Wanted + WithDType>(&self, numbers: Buffer<T>, shape: &[usize]) -> Result<Tensor> {
        Ok(match numbers {
            Buffer::Owned(numbers) => Tensor::from_vec(numbers, shape, &self.candle)?,
            numbers => Tensor::from_slice(&numbers, shape, &self.candle)?,
        })
    }
}

impl Operations for Candle {
    type Tensor = Tensor;

    fn read(&self, tensor: UnreadTensor<'_>, dtype: Precision) -> Result<Tensor> {
        match dtype {
            Precision::Float32 => self.tensor::<f32>(tensor.read()?, tensor.shape),
            Precision::BFloat16 => self.tensor::<half::bf16>(tensor.read()?, tensor.shape),
            Precision::Float16 => self.tensor::<half::f16>(tensor.read()?, tensor.shape),
        }
    }

    fn bytes(&self, values: &[u8], shape: &[usize]) -> Result<Tensor> {
        Ok(Tensor::from_slice(values, shape, &self.candle)?)
    }

    fn bytes_of(&self, x: &Tensor) -> Result<Vec<u8>> {
        Ok(x.flatten_all()?.to_vec1()?)
    }

    fn float32(&self, values: &[f32], shape: &[usize]) -> Result<Tensor> {
        Ok(Tensor::from_slice(values, shape, &self.candle)?)
    }

    fn synchronize(&self) -> Result<()> {
        Ok(self.candle.synchronize()?)
    }

    fn zeros(&self, shape: &[usize]) -> Result<Tensor> {
        Ok(Tensor::zeros(shape, self.compute, &self.candle)?)
    }

    fn numbers(&self, values: &[f32], shape: &[usize]) -> Result<Tensor> {
        Ok(Tensor::from_slice(values, shape, &self.candle)?.to_dtype(self.compute)?)
    }

    fn values(&self, x: &Tensor) -> Result<Vec<f32>> {
        Ok(x.to_dtype(DType::F32)?.flatten_all()?.to_vec1()?)
    }

    fn rows(&self, table: &Tensor, rows: &[u32]) -> Result<Tensor> {
        Ok(table.index_select(&Tensor::new(rows, &self.candle)?, 0)?.to_dtype(self.compute)?)
    }

    fn indices(&self, values: &[u32]) -> Result<Tensor> {
        Ok(Tensor::new(values, &self.candle)?)
    }

    fn columns(&self, x: &Tensor, indices: &Tensor) -> Result<Tensor> {
        Ok(x.contiguous()?.index_select(indices, 1)?)
    }

    fn add(&self, x: &Tensor, y: &Tensor) -> Result<Tensor> {
        Ok((x + y)?)
    }

    fn multiply(&self, x: &Tensor, y: &Tensor) -> Result<Tensor> {
        Ok((x * y)?)
    }

    fn scale(&self, x: &Tensor, factor: f64) -> Result<Tensor> {
        Ok((x * factor)?)
    }

    fn column_range(&self, x: &Tensor, columns: Range<usize>) -> Result<Tensor> {
        Ok(x.narrow(1, columns.start, columns.len())?.contiguous()?)
    }

    fn side_by_side(&self, parts: &[Tensor]) -> Result<Tensor> {
        Ok(Tensor::cat(parts, 1)?)
    }

    fn linear(&self, x: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
        // On a CPU, bfloat16 weights are widened here, one matrix at a time.
        let y = x.matmul(&weight.to_dtype(self.compute)?.t()?)?;
        Ok(match bias {
            Some(bias) => y.broadcast_add(bias)?,
            None => y,
        })
    }

    fn dequantize_4bit(&self, weight: &FourBitTensors<Tensor>) -> Result<Tensor> {
        let FourBitTensors { packed, absmax, minimum, pairs, blocks, blocksize, n, k, .. } = weight;
        // With one-byte indices, 255 is not an index but gives a zero.
        let numbers = pairs.index_select(&packed.to_dtype(DType::U32)?, 0)?; // (bytes, 2)
        let mut numbers = numbers.reshape((*blocks, *blocksize))?.broadcast_mul(absmax)?;
        if let Some(minimum) = minimum {
            numbers = numbers.broadcast_add(minimum)?;
        }
        Ok(numbers.flatten_all()?.narrow(0, 0, n * k)?.reshape((*n, *k))?.to_dtype(self.compute)?)
    }

    fn linear_int8(&self, x: &Tensor, weight: &Int8Tensors<Tensor>, bias: Option<&Tensor>) -> Result<Tensor> {
        let Int8Tensors { shifted, scb, threshold, .. } = weight;
        let x = x.to_dtype(DType::F32)?;
        let weight = shifted.to_dtype(DType::F32)?.affine(1.0, -f64::from(SHIFT))?; // (n, k)
        let (mut inputs, mut outliers) = (x.clone(), None);
        if *threshold > 0.0 {
            inputs = x.to_dtype(DType::F16)?.to_dtype(DType::F32)?;
            let large = inputs.abs()?.ge(*threshold)?;
            inputs = large.where_cond(&inputs.zeros_like()?, &inputs)?;
            let reached = large.max(0)?.to_vec1::<u8>()?;
            let columns: Vec<u32> = (0..).zip(&reached).filter(|(_, reached)| **reached != 0).map(|(k, _)| k).collect();
            if !columns.is_empty() {
                let kept = Tensor::from_iter(reached.iter().map(|&reached| 1.0 - f32::from(reached)), &self.candle)?;
                outliers = Some((Tensor::new(columns, &self.candle)?, kept));
            }
        }
        let absmax = inputs.abs()?.max_keepdim(1)?; // (M, 1)
        let factor = absmax.recip()?.affine(f64::from(LARGEST), 0.0)?;
        // A row of zeros, or almost, has no factor; its bytes are zeros.
        let factor = factor.le(f32::MAX)?.where_cond(&factor, &factor.zeros_like()?)?;
        // candle's own rounding takes halves away from 0.
        let integers = f64::from(INTEGERS);
        let mut bytes = inputs.broadcast_mul(&factor)?.affine(1.0, integers)?.affine(1.0, -integers)?;
        if let Some((_, kept)) = &outliers {
            bytes = bytes.broadcast_mul(kept)?;
        }
        let scales = absmax.broadcast_mul(scb)?; // (M, n)
        let mut y = (bytes.matmul(&weight.t()?)? * scales)?.affine(f64::from(PER_PRODUCT), 0.0)?;
        if let Some((columns, _)) = &outliers {
            let weight = weight.index_select(columns, 1)?.t()?; // (outliers, n)
            let weight = weight.broadcast_mul(scb)?.affine(f64::from(PER_STEP), 0.0)?;
            y = (y + x.index_select(columns, 1)?.matmul(&weight)?)?;
        }
        let y = y.to_dtype(self.compute)?;
        Ok(match bias {
            Some(bias) => y.broadcast_add(bias)?,
            None => y,
        })
    }

    fn layer_norm(&self, x: &Tensor, scale: &Tensor, shift: Option<&Tensor>, epsilon: f64) -> Result<Tensor> {
        let shift = shift.map_or_else(|| scale.zeros_like(), |shift| Ok(shift.clone()))?;
        Ok(candle_nn::ops::layer_norm(x, scale, &shift, epsilon as f32)?)
    }

    fn rms_norm(&self, x: &Tensor, scale: &Tensor, offset: f64, epsilon: f64) -> Result<Tensor> {
        match offset {
            0.0 => Ok(candle_nn::ops::rms_norm(x, scale, epsilon as f32)?),
            _ => Ok(candle_nn::ops::rms_norm(x, &scale.affine(1.0, offset)?, epsilon as f32)?),
        }
    }

    fn activate(&self, x: &Tensor, function: Activation) -> Result<Tensor> {
        Ok(match function {
            Activation::GeluNew => x.gelu()?,
            Activation::Gelu => x.gelu_erf()?,
            Activation::Relu => x.relu()?,
            Activation::Silu => x.silu()?,
        })
    }

    fn heads(&self, x: &Tensor, start: usize, (b, heads, t, d): (usize, usize, usize, usize)) -> Result<Tensor> {
        Ok(x.narrow(1, start, heads * d)?.reshape((b, t, heads, d))?.transpose(1, 2)?.contiguous()?)
    }

    fn rotate(&self, x: &Tensor, cos: &Tensor, sin: &Tensor) -> Result<Tensor> {
        let (turning, d) = (cos.dim(3)?, x.dim(3)?);
        let (part, half) = (x.narrow(3, 0, turning)?, turning / 2);
        let swapped = Tensor::cat(&[part.narrow(3, half, half)?, part.narrow(3, 0, half)?], 3)?;
        let turned = (part.broadcast_mul(cos)? + swapped.broadcast_mul(sin)?)?;
        match d - turning {
            0 => Ok(turned),
            rest => Ok(Tensor::cat(&[turned, x.narrow(3, turning, rest)?], 3)?),
        }
    }

    fn append(&self, cache: &mut Tensor, new: &Tensor, past_len: usize) -> Result<Tensor> {
        cache.slice_set(&new.contiguous()?, 2, past_len)?;
        Ok(cache.narrow(2, 0, past_len + new.dim(2)?)?)
    }

    fn attention(
        &self,
        q: &Tensor,
        k: &Tensor,
        v: &Tensor,
        mask: Option<&Tensor>,
        scale: f32,
        soft_cap: Option<f32>,
    ) -> Result<Tensor> {
        let (b, heads, t, d) = q.dims4()?;
        let (kv_heads, keys) = (k.dim(1)?, k.dim(2)?);
        // Queries that share keys lie one after the other: (B, J, G T, D).
        let q = q.reshape((b, kv_heads, heads / kv_heads * t, d))?;
        let mut scores = (q.matmul(&k.transpose(2, 3)?.contiguous()?)? * f64::from(scale))?;
        if let Some(cap) = soft_cap.map(f64::from) {
            scores = ((scores / cap)?.tanh()? * cap)?;
        }
        scores = scores.reshape((b, heads, t, keys))?;
        if let Some(mask) = mask {
            scores = scores.broadcast_add(mask)?;
        }
        let weights = candle_nn::ops::softmax_last_dim(&scores)?;
        let y = weights.reshape((b, kv_heads, heads / kv_heads * t, keys))?.matmul(&v.contiguous()?)?;
        Ok(y.reshape((b, heads, t, d))?.transpose(1, 2)?.reshape((b * t, heads * d))?)
    }
}

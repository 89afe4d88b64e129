//! Decoders in libtorch's tensors.

use half::{bf16, f16};
use tch::{Cuda, Device as TorchDevice, IndexOp, Kind, Tensor};

use crate::error::{Error, Result};
use crate::model::cpu::Numbers;
use crate::model::decoder::{FourBitTensors, InMemory, Int8Tensors, Memory, Operations, SHIFT};
use crate::model::weights::Slot;
use crate::model::{Activation, Device, Precision};
use crate::quant::{LARGEST, PER_PRODUCT, PER_STEP};

pub(in crate::model) struct Torch {
    device: Device,
    torch: TorchDevice,
    /// What is computed in: float32 on a CPU, the format of the weights elsewhere.
    compute: Kind,
}

/// A tensor that is only read once it is filled.
#[derive(Debug)]
pub(in crate::model) struct Shared(pub Tensor);

// SAFETY: libtorch's tensors may be read, and new ones made from them, on several threads at once; caches,
// the only ones that are written to, are written through `&mut`.
unsafe impl Sync for Shared {}

impl Torch {
    /// # Errors
    /// This libtorch has no support for the device, or the device is not there.
    pub fn new(device: Device, dtype: Precision) -> Result<Self> {
        let torch = match device {
            Device::Cpu => TorchDevice::Cpu,
            Device::Cuda(index) if (index as i64) < Cuda::device_count() => TorchDevice::Cuda(index),
            Device::Cuda(_) => {
                return Err(Error::system(format!(
                    "libtorch cannot use {device}: it sees {} GPUs",
                    Cuda::device_count()
                ))
                .hint("take `Device::Cpu`, or set up with `cargo lab setup --cuda` on a machine with a GPU"));
            }
        };
        Ok(Self { device, torch, compute: if device.is_cpu() { Kind::Float } else { kind(dtype) } })
    }

    /// As [`new`](Self::new), where a tensor is.
    ///
    /// # Errors
    /// A device that is neither a CPU nor a GPU of NVIDIA.
    pub fn on(torch: TorchDevice, dtype: Precision) -> Result<Self> {
        match torch {
            TorchDevice::Cpu => Self::new(Device::Cpu, dtype),
            TorchDevice::Cuda(index) => Self::new(Device::Cuda(index), dtype),
            other => Err(Error::input(format!("a tensor on {other:?}")).hint("move it to the CPU or to a CUDA device")),
        }
    }

    /// A tensor of this device in what is computed in; the same memory if it is so already.
    pub fn compute(&self, x: &Tensor) -> Result<Shared> {
        computed(|| x.f_to_kind(self.compute))
    }
}

/// The format of a tensor of this kind, if it is one for weights.
pub(in crate::model) fn precision(of: Kind) -> Option<Precision> {
    Precision::ALL.into_iter().find(|&precision| kind(precision) == of)
}

pub(in crate::model) fn kind(dtype: Precision) -> Kind {
    match dtype {
        Precision::Float32 => Kind::Float,
        Precision::BFloat16 => Kind::BFloat16,
        Precision::Float16 => Kind::Half,
    }
}

fn sizes(shape: &[usize]) -> Vec<i64> {
    shape.iter().map(|&size| size as i64).collect()
}

impl Memory for Torch {
    type Tensor = Shared;

    fn tensor(
        &self,
        shape: &[usize],
        dtype: Precision,
        fill: &mut dyn FnMut(Slot<'_>) -> Result<()>,
    ) -> Result<Shared> {
        let tensor = Tensor::f_empty(sizes(shape), (kind(dtype), TorchDevice::Cpu))?;
        let len = shape.iter().product();
        let start = tensor.data_ptr();
        macro_rules! slot {
            ($slot:ident, $type:ty) => {
                // SAFETY: a new tensor on the CPU is one piece of `len` numbers of this kind, which nobody
                // else knows; any bytes are a number of this type, and all are written before they are read.
                Slot::$slot(unsafe { std::slice::from_raw_parts_mut(start.cast::<$type>(), len) })
            };
        }
        fill(match dtype {
            Precision::Float32 => slot!(Float32, f32),
            Precision::BFloat16 => slot!(BFloat16, bf16),
            Precision::Float16 => slot!(Float16, f16),
        })?;
        Ok(Shared(if self.device.is_cpu() { tensor } else { tensor.f_to_device(self.torch)? }))
    }

    fn shape(tensor: &Shared) -> Vec<usize> {
        tensor.0.size().into_iter().map(|size| size as usize).collect()
    }

    fn bytes(&self, values: &[u8], shape: &[usize]) -> Result<Shared> {
        computed(|| Tensor::f_from_slice(values)?.f_view(sizes(shape).as_slice())?.f_to_device(self.torch))
    }
}

impl InMemory for Shared {
    fn numbers(&self) -> Numbers<'_> {
        let (start, len) = (self.0.data_ptr(), self.0.numel());
        match self.0.kind() {
            // SAFETY: as made by `Torch::tensor`: one piece of `len` numbers, not written to again.
            Kind::Float => Numbers::Float32(unsafe { std::slice::from_raw_parts(start.cast(), len) }),
            // SAFETY: as above.
            Kind::BFloat16 => Numbers::BFloat16(unsafe { std::slice::from_raw_parts(start.cast(), len) }),
            _ => unreachable!("a fused step runs on the CPU, in float32 or bfloat16"),
        }
    }
}

/// Runs an operation without recording what its gradient would need.
fn computed(operation: impl FnOnce() -> std::result::Result<Tensor, tch::TchError>) -> Result<Shared> {
    Ok(Shared(tch::no_grad(operation)?))
}

impl Operations for Torch {
    fn device(&self) -> Device {
        self.device
    }

    fn synchronize(&self) -> Result<()> {
        if let TorchDevice::Cuda(index) = self.torch {
            Cuda::synchronize(index as i64);
        }
        Ok(())
    }

    fn zeros(&self, shape: &[usize]) -> Result<Shared> {
        computed(|| Tensor::f_zeros(sizes(shape), (self.compute, self.torch)))
    }

    fn numbers(&self, values: &[f32], shape: &[usize]) -> Result<Shared> {
        computed(|| {
            Tensor::f_from_slice(values)?
                .f_view(sizes(shape).as_slice())?
                .f_to_device(self.torch)?
                .f_to_kind(self.compute)
        })
    }

    fn values(&self, x: &Shared) -> Result<Vec<f32>> {
        let x = computed(|| x.0.f_to_device(TorchDevice::Cpu)?.f_to_kind(Kind::Float)?.f_contiguous())?;
        let mut values = vec![0.0_f32; x.0.numel()];
        x.0.f_copy_data(&mut values, x.0.numel())?;
        Ok(values)
    }

    fn rows(&self, table: &Shared, rows: &[u32]) -> Result<Shared> {
        let rows: Vec<i64> = rows.iter().map(|&row| i64::from(row)).collect();
        computed(|| {
            let rows = Tensor::f_from_slice(&rows)?.f_to_device(self.torch)?;
            table.0.f_index_select(0, &rows)?.f_to_kind(self.compute)
        })
    }

    fn add(&self, x: &Shared, y: &Shared) -> Result<Shared> {
        computed(|| x.0.f_add(&y.0))
    }

    fn multiply(&self, x: &Shared, y: &Shared) -> Result<Shared> {
        computed(|| x.0.f_mul(&y.0))
    }

    fn linear(&self, x: &Shared, weight: &Shared, bias: Option<&Shared>) -> Result<Shared> {
        computed(|| {
            let kind = weight.0.kind();
            if kind == self.compute {
                return x.0.f_linear(&weight.0, bias.map(|bias| &bias.0));
            }
            // bfloat16 on a CPU: the product is torch's own of bfloat16, the rest stays float32.
            let y = x.0.f_to_kind(kind)?.f_linear(&weight.0, None::<&Tensor>)?.f_to_kind(self.compute)?;
            match bias {
                Some(bias) => y.f_add(&bias.0),
                None => Ok(y),
            }
        })
    }

    fn dequantize_4bit(&self, weight: &FourBitTensors<Shared>) -> Result<Shared> {
        let FourBitTensors { packed, absmax, pairs, blocks, blocksize, n, k } = weight;
        computed(|| {
            let numbers = pairs.0.f_index_select(0, &packed.0.f_to_kind(Kind::Int)?)?; // (bytes, 2)
            let numbers = numbers.f_view(sizes(&[*blocks, *blocksize]).as_slice())?.f_mul_(&absmax.0)?;
            let numbers = numbers.f_flatten(0, -1)?.f_narrow(0, 0, (n * k) as i64)?;
            numbers.f_view(sizes(&[*n, *k]).as_slice())?.f_to_kind(self.compute)
        })
    }

    fn linear_int8(&self, x: &Shared, weight: &Int8Tensors<Shared>, bias: Option<&Shared>) -> Result<Shared> {
        let Int8Tensors { shifted, scb, threshold, .. } = weight;
        let threshold = f64::from(*threshold);
        computed(|| {
            let x = x.0.f_to_kind(Kind::Float)?;
            let weight = shifted.0.f_to_kind(Kind::Float)?.f_sub_scalar_(f64::from(SHIFT))?; // (n, k)
            let (mut inputs, mut outliers) = (x.shallow_clone(), None);
            if threshold > 0.0 {
                inputs = x.f_to_kind(Kind::Half)?.f_to_kind(Kind::Float)?;
                let large = inputs.f_abs()?.f_ge(threshold)?;
                inputs = inputs.f_masked_fill(&large, 0.0)?;
                let columns = large.f_any_dim(0, false)?.f_nonzero()?.f_flatten(0, -1)?;
                outliers = Some(columns).filter(|columns| columns.numel() > 0);
            }
            let absmax = inputs.f_abs()?.f_amax([-1_i64].as_slice(), true)?; // (M, 1)
            // A row of zeros, or almost, has no factor; its bytes are zeros.
            let factor = absmax.f_reciprocal()?.f_mul_scalar_(f64::from(LARGEST))?.f_nan_to_num(0.0, 0.0, 0.0)?;
            let mut bytes = inputs.f_mul(&factor)?.f_round()?;
            if let Some(columns) = &outliers {
                bytes = bytes.f_index_fill_(1, columns, 0.0)?;
            }
            let scales = absmax.f_mul(&scb.0)?; // (M, n)
            let mut y = bytes.f_matmul(&weight.f_tr()?)?.f_mul_(&scales)?.f_mul_scalar_(f64::from(PER_PRODUCT))?;
            if let Some(columns) = &outliers {
                let weight = weight.f_index_select(1, columns)?.f_tr()?; // (outliers, n)
                let weight = weight.f_mul(&scb.0)?.f_mul_scalar_(f64::from(PER_STEP))?;
                y = y.f_add_(&x.f_index_select(1, columns)?.f_matmul(&weight)?)?;
            }
            let y = y.f_to_kind(self.compute)?;
            match bias {
                Some(bias) => y.f_add(&bias.0),
                None => Ok(y),
            }
        })
    }

    fn layer_norm(&self, x: &Shared, scale: &Shared, shift: &Shared, epsilon: f64) -> Result<Shared> {
        computed(|| x.0.f_layer_norm(scale.0.size(), Some(&scale.0), Some(&shift.0), epsilon, false))
    }

    fn rms_norm(&self, x: &Shared, scale: &Shared, epsilon: f64) -> Result<Shared> {
        computed(|| {
            // In float32, as transformers does: the squares of half precision overflow.
            let wide = x.0.f_to_kind(Kind::Float)?;
            let mean_square = wide.f_square()?.f_mean_dim([-1_i64].as_slice(), true, Kind::Float)?;
            let normed = wide.f_mul(&mean_square.f_add_scalar(epsilon)?.f_rsqrt()?)?;
            normed.f_to_kind(self.compute)?.f_mul(&scale.0)
        })
    }

    fn activate(&self, x: &Shared, function: Activation) -> Result<Shared> {
        computed(|| match function {
            Activation::GeluNew => x.0.f_gelu("tanh"),
            Activation::Gelu => x.0.f_gelu("none"),
            Activation::Relu => x.0.f_relu(),
            Activation::Silu => x.0.f_silu(),
        })
    }

    fn heads(&self, x: &Shared, start: usize, (b, heads, t, d): (usize, usize, usize, usize)) -> Result<Shared> {
        computed(|| {
            let part = x.0.f_narrow(1, start as i64, (heads * d) as i64)?;
            part.f_reshape(sizes(&[b, t, heads, d]).as_slice())?.f_transpose(1, 2)
        })
    }

    fn rotate(&self, x: &Shared, cos: &Shared, sin: &Shared) -> Result<Shared> {
        computed(|| {
            let halves = x.0.f_chunk(2, 3)?;
            let (a, b) = (&halves[0], &halves[1]);
            let first = a.f_mul(&cos.0)?.f_sub(&b.f_mul(&sin.0)?)?;
            let second = b.f_mul(&cos.0)?.f_add(&a.f_mul(&sin.0)?)?;
            Tensor::f_cat(&[first, second], 3)
        })
    }

    fn append(&self, cache: &mut Shared, new: &Shared, past_len: usize) -> Result<Shared> {
        let (from, to) = (past_len as i64, past_len as i64 + new.0.size()[2]);
        computed(|| {
            cache.0.f_narrow(2, from, to - from)?.f_copy_(&new.0)?;
            Ok(cache.0.i((.., .., ..to)))
        })
    }

    fn attention(&self, q: &Shared, k: &Shared, v: &Shared, mask: &Shared, scale: f32) -> Result<Shared> {
        let [b, heads, t, d] = q.0.size()[..] else { return Err(Error::system("queries are not (B, H, T, D)")) };
        let grouped = heads != k.0.size()[1];
        let scale = f64::from(scale);
        computed(|| {
            let y =
                Tensor::f_scaled_dot_product_attention(&q.0, &k.0, &v.0, Some(&mask.0), 0.0, false, scale, grouped)?;
            y.f_transpose(1, 2)?.f_reshape([b * t, heads * d].as_slice())
        })
    }
}

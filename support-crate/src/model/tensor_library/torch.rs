//! libtorch's tensors and operations.

use std::ops::Range;

use quantlab_kernels::{LARGEST, PER_PRODUCT, PER_STEP};
use tch::kind::Element;
use tch::{Cuda, Device as TorchDevice, Kind, Tensor};

use super::quantized::SHIFT;
use super::{FourBitTensors, Int8Tensors, Operations};
use crate::error::{Error, Result};
use crate::model::weights::{UnreadTensor, Wanted};
use crate::model::{Activation, Device, Precision};

#[derive(Debug)]
pub(in crate::model) struct Torch {
    torch: TorchDevice,
    /// [`Precision::computed_on`] the device.
    compute: Kind,
}

/// A tensor that is only read once it is filled.
#[derive(Debug)]
pub(in crate::model) struct TorchTensor(pub(super) Tensor);

// SAFETY: libtorch's tensors may be read, and new ones made from them, on several threads at once. Caches, the only
// ones that are written to, are written through `&mut`. No code outside of `model` gets the tensor itself: even a
// `&Tensor` gives a shallow clone, which may be written to and resized.
unsafe impl Sync for TorchTensor {}

impl Torch {
    /// # Errors
    /// This libtorch has no support for the device, or the device is not there.
    pub fn new(device: Device, dtype: Precision) -> Result<Self> {
        let compute = kind(dtype.computed_on(device));
        Ok(Self { torch: Self::device(device)?, compute })
    }

    /// The same device, as libtorch calls it. A libtorch without CUDA, or without a driver for it, sees no GPU.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn device(device: Device) -> Result<TorchDevice> {
        match device {
            Device::Cpu => Ok(TorchDevice::Cpu),
            Device::Cuda(index) if Cuda::is_available() && (index as i64) < Cuda::device_count() => {
                Ok(TorchDevice::Cuda(index))
            }
            Device::Cuda(_) => {
                let count = Cuda::device_count();
                Err(Error::system(format!("libtorch cannot use {device}: it sees {count} GPUs"))
                    .hint("use `Device::Cpu`, or set up with `cargo lab setup --cuda` on a machine with a GPU"))
            }
        }
    }

    /// A copy of numbers on the device.
    fn tensor<T: Element>(&self, numbers: &[T], shape: &[usize]) -> Result<TorchTensor> {
        computed(|| Tensor::f_from_slice(numbers)?.f_view(sizes(shape).as_slice())?.f_to_device(self.torch))
    }

    /// Reads a tensor straight into libtorch's memory. `T` is the type of numbers in `dtype`.
    fn weights<T: Wanted>(&self, tensor: UnreadTensor<'_>, dtype: Precision) -> Result<TorchTensor> {
        tensor.check()?;
        let x = computed(|| Tensor::f_zeros(sizes(tensor.shape), (kind(dtype), TorchDevice::Cpu)))?.0;
        let (len, size) = (tensor.shape.iter().product(), kind(dtype).elt_size_in_bytes());
        if len == 0
            || x.device() != TorchDevice::Cpu
            || !x.is_contiguous()
            || x.numel() != len
            || size != size_of::<T>()
        {
            return Err(Error::system(format!("libtorch made {x:?} for {dtype} of the shape {:?}", tensor.shape)));
        }
        // SAFETY: as was just checked, this tensor is on the CPU and holds `len` numbers, at least one, of this size,
        // contiguously; zeros have been written to all of it, and any bytes are a valid number of a `Wanted` type.
        // Nobody else has it yet.
        tensor.read_to(unsafe { std::slice::from_raw_parts_mut(x.data_ptr().cast::<T>(), len) })?;
        computed(|| x.f_to_device(self.torch))
    }
}

/// A copy of a tensor's numbers, row by row, whatever its strides and its device.
///
/// # Errors
/// A tensor of another type.
fn numbers_of<T: Element + Default + Clone>(x: &Tensor) -> Result<Vec<T>> {
    let mut numbers = vec![T::default(); x.numel()];
    x.f_copy_data(&mut numbers, x.numel())?;
    Ok(numbers)
}

fn kind(dtype: Precision) -> Kind {
    match dtype {
        Precision::Float32 => Kind::Float,
        Precision::BFloat16 => Kind::BFloat16,
        Precision::Float16 => Kind::Half,
    }
}

fn sizes(shape: &[usize]) -> Vec<i64> {
    shape.iter().map(|&size| size as i64).collect()
}

/// Numbers of any type whose bytes are a multiple of what GPU kernels read at once.
const ALIGNED: i64 = 8;

/// Attention of `q` (B, H, T, D) on a GPU, by a kernel that takes any number of keys.
///
/// On some GPUs, `scaled_dot_product_attention` of 16-bit numbers is cuDNN's, which makes a plan for each number of keys:
/// 41 to 47 ms for each token at a length that the process has not met yet, on an H200, where the whole step then takes
/// 2 to 5. torch has a switch for it, which neither its operations nor tch reach.
fn efficient_attention(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    mask: Option<&Tensor>,
    scale: f64,
) -> std::result::Result<Tensor, tch::TchError> {
    let ([b, heads, t, d], [_, kv_heads, keys, _]) = (q.size4()?.into(), k.size4()?.into());
    // The kernel knows no groups: queries that share keys lie one after the other, (B, J, G T, D).
    let rows = heads / kv_heads * t;
    let bias = mask.map(|mask| {
        // Its rows have to begin where vectors may.
        let (masks, wide) = (mask.size()[0], keys + (-keys).rem_euclid(ALIGNED));
        let padded = if wide == keys { mask.shallow_clone() } else { mask.f_constant_pad_nd([0, wide - keys])? };
        let of_groups =
            padded.f_expand([masks, heads / kv_heads, t, wide], false)?.f_reshape([masks, 1, rows, wide])?;
        of_groups.f_narrow(3, 0, keys)?.f_expand([b, kv_heads, rows, keys], false)
    });
    let q = q.f_reshape([b, kv_heads, rows, d])?;
    let bias = bias.transpose()?;
    let (y, ..) =
        Tensor::f_internal_scaled_dot_product_efficient_attention(&q, k, v, bias.as_ref(), false, 0.0, false, scale)?;
    y.f_reshape([b, heads, t, d])
}

/// Runs an operation without recording what its gradient would need.
fn computed(operation: impl FnOnce() -> std::result::Result<Tensor, tch::TchError>) -> Result<TorchTensor> {
    Ok(TorchTensor(tch::no_grad(operation)?))
}

impl Operations for Torch {
    type Tensor = TorchTensor;

    fn read(&self, tensor: UnreadTensor<'_>, dtype: Precision) -> Result<TorchTensor> {
        match dtype {
            Precision::Float32 => self.weights::<f32>(tensor, dtype),
            Precision::BFloat16 => self.weights::<half::bf16>(tensor, dtype),
            Precision::Float16 => self.weights::<half::f16>(tensor, dtype),
        }
    }

    fn bytes(&self, values: &[u8], shape: &[usize]) -> Result<TorchTensor> {
        self.tensor(values, shape)
    }

    fn bytes_of(&self, x: &TorchTensor) -> Result<Vec<u8>> {
        numbers_of(&x.0)
    }

    fn float32(&self, values: &[f32], shape: &[usize]) -> Result<TorchTensor> {
        self.tensor(values, shape)
    }

    fn synchronize(&self) -> Result<()> {
        if let TorchDevice::Cuda(index) = self.torch {
            Cuda::synchronize(index as i64);
        }
        Ok(())
    }

    fn zeros(&self, shape: &[usize]) -> Result<TorchTensor> {
        computed(|| Tensor::f_zeros(sizes(shape), (self.compute, self.torch)))
    }

    fn numbers(&self, values: &[f32], shape: &[usize]) -> Result<TorchTensor> {
        let values = self.tensor(values, shape)?;
        computed(|| values.0.f_to_kind(self.compute))
    }

    fn values(&self, x: &TorchTensor) -> Result<Vec<f32>> {
        numbers_of(&computed(|| x.0.f_to_device(TorchDevice::Cpu)?.f_to_kind(Kind::Float))?.0)
    }

    fn rows(&self, table: &TorchTensor, rows: &[u32]) -> Result<TorchTensor> {
        let rows: Vec<i64> = rows.iter().map(|&row| i64::from(row)).collect();
        computed(|| {
            let rows = Tensor::f_from_slice(&rows)?.f_to_device(self.torch)?;
            table.0.f_index_select(0, &rows)?.f_to_kind(self.compute)
        })
    }

    fn indices(&self, values: &[u32]) -> Result<TorchTensor> {
        let values: Vec<i64> = values.iter().map(|&value| i64::from(value)).collect();
        self.tensor(&values, &[values.len()])
    }

    fn columns(&self, x: &TorchTensor, indices: &TorchTensor) -> Result<TorchTensor> {
        computed(|| x.0.f_index_select(1, &indices.0))
    }

    fn add(&self, x: &TorchTensor, y: &TorchTensor) -> Result<TorchTensor> {
        computed(|| x.0.f_add(&y.0))
    }

    fn multiply(&self, x: &TorchTensor, y: &TorchTensor) -> Result<TorchTensor> {
        computed(|| x.0.f_mul(&y.0))
    }

    fn scale(&self, x: &TorchTensor, factor: f64) -> Result<TorchTensor> {
        computed(|| x.0.f_mul_scalar(factor))
    }

    fn column_range(&self, x: &TorchTensor, columns: Range<usize>) -> Result<TorchTensor> {
        computed(|| x.0.f_narrow(1, columns.start as i64, columns.len() as i64))
    }

    fn side_by_side(&self, parts: &[TorchTensor]) -> Result<TorchTensor> {
        let parts: Vec<&Tensor> = parts.iter().map(|part| &part.0).collect();
        computed(|| Tensor::f_cat(&parts, 1))
    }

    fn linear(&self, x: &TorchTensor, weight: &TorchTensor, bias: Option<&TorchTensor>) -> Result<TorchTensor> {
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

    fn dequantize_4bit(&self, weight: &FourBitTensors<TorchTensor>) -> Result<TorchTensor> {
        let FourBitTensors { packed, absmax, minimum, pairs, blocks, blocksize, n, k, .. } = weight;
        computed(|| {
            let numbers = pairs.0.f_index_select(0, &packed.0.f_to_kind(Kind::Int)?)?; // (bytes, 2)
            let mut numbers = numbers.f_view(sizes(&[*blocks, *blocksize]).as_slice())?.f_mul_(&absmax.0)?;
            if let Some(minimum) = minimum {
                numbers = numbers.f_add_(&minimum.0)?;
            }
            let numbers = numbers.f_flatten(0, -1)?.f_narrow(0, 0, (n * k) as i64)?;
            numbers.f_view(sizes(&[*n, *k]).as_slice())?.f_to_kind(self.compute)
        })
    }

    fn linear_int8(
        &self,
        x: &TorchTensor,
        weight: &Int8Tensors<TorchTensor>,
        bias: Option<&TorchTensor>,
    ) -> Result<TorchTensor> {
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

    fn layer_norm(
        &self,
        x: &TorchTensor,
        scale: &TorchTensor,
        shift: Option<&TorchTensor>,
        epsilon: f64,
    ) -> Result<TorchTensor> {
        computed(|| x.0.f_layer_norm(scale.0.size(), Some(&scale.0), shift.map(|shift| &shift.0), epsilon, false))
    }

    fn rms_norm(&self, x: &TorchTensor, scale: &TorchTensor, offset: f64, epsilon: f64) -> Result<TorchTensor> {
        computed(|| {
            if offset == 0.0 {
                return x.0.f_rms_norm(scale.0.size(), Some(&scale.0), epsilon);
            }
            // Rounded to 16 bits, scales near 1 would lose what they are stored less it for.
            let scale = scale.0.f_to_kind(Kind::Float)?.f_add_scalar(offset)?;
            x.0.f_to_kind(Kind::Float)?.f_rms_norm(scale.size(), Some(&scale), epsilon)?.f_to_kind(self.compute)
        })
    }

    fn activate(&self, x: &TorchTensor, function: Activation) -> Result<TorchTensor> {
        computed(|| match function {
            Activation::GeluNew => x.0.f_gelu("tanh"),
            Activation::Gelu => x.0.f_gelu("none"),
            Activation::Relu => x.0.f_relu(),
            Activation::Silu => x.0.f_silu(),
        })
    }

    fn heads(
        &self,
        x: &TorchTensor,
        start: usize,
        (b, heads, t, d): (usize, usize, usize, usize),
    ) -> Result<TorchTensor> {
        computed(|| {
            let part = x.0.f_narrow(1, start as i64, (heads * d) as i64)?;
            part.f_reshape(sizes(&[b, t, heads, d]).as_slice())?.f_transpose(1, 2)
        })
    }

    fn rotate(&self, x: &TorchTensor, cos: &TorchTensor, sin: &TorchTensor) -> Result<TorchTensor> {
        computed(|| {
            let (turning, d) = (cos.0.size()[3], x.0.size()[3]);
            let part = x.0.f_narrow(3, 0, turning)?;
            let swapped = part.f_roll(turning / 2, 3)?;
            let turned = part.f_mul(&cos.0)?.f_addcmul_(&swapped, &sin.0)?;
            match d - turning {
                0 => Ok(turned),
                rest => Tensor::f_cat(&[turned, x.0.f_narrow(3, turning, rest)?], 3),
            }
        })
    }

    fn append(&self, cache: &mut TorchTensor, new: &TorchTensor, past_len: usize) -> Result<TorchTensor> {
        let (from, to) = (past_len as i64, past_len as i64 + new.0.size()[2]);
        computed(|| {
            cache.0.f_narrow(2, from, to - from)?.f_copy_(&new.0)?;
            cache.0.f_narrow(2, 0, to)
        })
    }

    fn attention(
        &self,
        q: &TorchTensor,
        k: &TorchTensor,
        v: &TorchTensor,
        mask: Option<&TorchTensor>,
        scale: f32,
        soft_cap: Option<f32>,
    ) -> Result<TorchTensor> {
        let [b, heads, t, d] = q.0.size()[..] else { return Err(Error::system("queries are not (B, H, T, D)")) };
        let group = heads / k.0.size()[1];
        let (scale, grouped) = (f64::from(scale), group != 1);
        computed(|| {
            if let Some(cap) = soft_cap.map(f64::from) {
                // torch's own attention has no cap. Queries that share keys lie one after the other: (B, J, G T, D).
                let (kv_heads, keys) = (heads / group, k.0.size()[2]);
                let q = q.0.f_reshape([b, kv_heads, group * t, d].as_slice())?;
                let scores = q.f_matmul(&k.0.f_transpose(2, 3)?)?.f_mul_scalar(scale / cap)?.f_tanh()?;
                let mut scores = scores.f_mul_scalar(cap)?.f_reshape([b, heads, t, keys].as_slice())?;
                if let Some(mask) = mask {
                    scores = scores.f_add(&mask.0)?;
                }
                let weights = scores.f_softmax(-1, self.compute)?;
                let y = weights.f_reshape([b, kv_heads, group * t, keys].as_slice())?.f_matmul(&v.0)?;
                let y = y.f_reshape([b, heads, t, d].as_slice())?;
                return y.f_transpose(1, 2)?.f_reshape([b * t, heads * d].as_slice());
            }
            let mask = mask.map(|mask| &mask.0);
            let y = if q.0.device().is_cuda() && d % ALIGNED == 0 {
                efficient_attention(&q.0, &k.0, &v.0, mask, scale)?
            } else {
                Tensor::f_scaled_dot_product_attention(&q.0, &k.0, &v.0, mask, 0.0, false, scale, grouped)?
            };
            y.f_transpose(1, 2)?.f_reshape([b * t, heads * d].as_slice())
        })
    }
}

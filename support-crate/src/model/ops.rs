//! The operations a transformer is made of: kernels of our own on the CPU, candle's elsewhere.

use std::f64::consts::FRAC_1_SQRT_2;

use candle_core::backend::BackendStorage;
use candle_core::cpu::erf::erf_f64;
use candle_core::{CpuStorage, CustomOp3, DType, InplaceOp1, InplaceOp2, Layout, Shape, Tensor, WithDType};

use super::Activation;
use super::kernels::{self, Cached, Visible};
use crate::error::Result;

/// Up to this many rows of input, reading the weights takes longer than the arithmetic, and the kernel
/// that reads them once for all rows wins over a product of matrices.
const FEW_ROWS: usize = 8;

/// `y = x W^T + b`.
#[derive(Debug, Clone)]
pub(super) struct Linear {
    /// (out, in)
    weight: Tensor,
    /// (out), or (0) for no bias, in the format that is computed in.
    bias: Tensor,
}

impl Linear {
    /// `weight` (out, in) and `bias` (out).
    pub fn new(weight: Tensor, bias: Tensor) -> Self {
        Self { weight, bias }
    }

    /// `weight` (out, in), computing in `dtype`.
    pub fn without_bias(weight: Tensor, dtype: DType) -> Result<Self> {
        let bias = Tensor::zeros(0, dtype, weight.device())?;
        Ok(Self { weight, bias })
    }

    /// `x` (rows, in) to (rows, out).
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let rows = x.dim(0)?;
        if x.device().is_cpu() && rows <= FEW_ROWS {
            return Ok(x.apply_op3_no_bwd(&self.weight, &self.bias, &FewRows)?);
        }
        // On a CPU, 16-bit weights are widened here, one matrix at a time.
        let weight = self.weight.to_dtype(x.dtype())?;
        let y = x.matmul(&weight.t()?)?;
        match self.bias.elem_count() {
            0 => Ok(y),
            _ => add(y, &self.bias),
        }
    }

    /// The weights and the bias.
    pub fn tensors(&self) -> [&Tensor; 2] {
        [&self.weight, &self.bias]
    }
}

/// Normalises each row to mean 0 and variance 1, then scales and shifts it.
#[derive(Debug, Clone)]
pub(super) struct LayerNorm {
    pub scale: Tensor,
    pub shift: Tensor,
    pub epsilon: f64,
}

impl LayerNorm {
    /// `x` (rows, C) to the same shape.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let epsilon = self.epsilon as f32;
        Ok(if x.device().is_cpu() {
            x.apply_op3_no_bwd(&self.scale, &self.shift, &NormRows { epsilon })?
        } else {
            candle_nn::ops::layer_norm(x, &self.scale, &self.shift, epsilon)?
        })
    }
}

/// `x + y`, in place where possible; `y` has the shape of `x`, or that of its rows.
pub(super) fn add(x: Tensor, y: &Tensor) -> Result<Tensor> {
    if !x.device().is_cpu() {
        return Ok(x.broadcast_add(y)?);
    }
    x.inplace_op2(y, &Add)?;
    Ok(x)
}

/// The function between the two matrices of a feed-forward part, in place where possible.
pub(super) fn activate(x: Tensor, function: Activation) -> Result<Tensor> {
    if x.device().is_cpu() {
        x.inplace_op1(&Activate { function })?;
        return Ok(x);
    }
    Ok(match function {
        Activation::GeluNew => x.gelu()?,
        Activation::Gelu => x.gelu_erf()?,
        Activation::Relu => x.relu()?,
        Activation::Silu => x.silu()?,
    })
}

/// Attention of each head to the visible keys.
///
/// `q` (B, H, T, D); `k` and `v` (B, H, capacity, D) of which the first `visible` count; result
/// (B, H, T, D).
pub(super) fn attend(q: &Tensor, k: &Tensor, v: &Tensor, scale: f32, visible: Visible<'_>) -> Result<Tensor> {
    let cpu = q.device().is_cpu();
    if cpu && visible.queries == 1 {
        return Ok(q.contiguous()?.apply_op3_no_bwd(k, v, &AttendOne { scale, visible })?);
    }
    let keys = visible.past_len + visible.queries;
    let k = k.narrow(2, 0, keys)?;
    let v = v.narrow(2, 0, keys)?;
    let scores = q.contiguous()?.matmul(&k.transpose(2, 3)?)?; // (B, H, T, S)
    let weights = if cpu {
        scores.inplace_op1(&CausalSoftmax { scale, visible })?;
        scores
    } else {
        let mask = additive_mask(&visible, &scores)?; // (B or 1, 1, T, S)
        let scores = (scores * f64::from(scale))?.broadcast_add(&mask)?;
        candle_nn::ops::softmax_last_dim(&scores)?
    };
    Ok(weights.matmul(&v)?)
}

/// 0 where a query may look at a key, a very negative number elsewhere.
fn additive_mask(visible: &Visible<'_>, scores: &Tensor) -> Result<Tensor> {
    let (queries, keys) = (visible.queries, visible.past_len + visible.queries);
    let batch = visible.key_mask.map_or(1, |mask| mask.len() / keys);
    let allowed = |b: usize, t: usize, s: usize| {
        s <= visible.past_len + t && visible.key_mask.is_none_or(|mask| mask[b * keys + s])
    };
    let mask: Vec<f32> = (0..batch * queries * keys)
        .map(|i| if allowed(i / (queries * keys), i / keys % queries, i % keys) { 0.0 } else { -1e4 })
        .collect();
    Ok(Tensor::from_vec(mask, (batch, 1, queries, keys), scores.device())?.to_dtype(scores.dtype())?)
}

struct FewRows;

impl CustomOp3 for FewRows {
    fn name(&self) -> &'static str {
        "few-rows-linear"
    }

    /// `x` (M, K), `weight` (N, K), `bias` (N) or (0), to (M, N).
    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        x_layout: &Layout,
        weight: &CpuStorage,
        weight_layout: &Layout,
        bias: &CpuStorage,
        bias_layout: &Layout,
    ) -> candle_core::Result<(CpuStorage, Shape)> {
        let (m, k) = x_layout.shape().dims2()?;
        let (n, _) = weight_layout.shape().dims2()?;
        let x = contiguous::<f32>(x, x_layout)?;
        let bias = contiguous::<f32>(bias, bias_layout)?;
        let mut out = vec![0.0_f32; n * m];
        match weight {
            CpuStorage::BF16(_) => {
                kernels::matvec(contiguous::<half::bf16>(weight, weight_layout)?, x, bias, k, &mut out)
            }
            _ => kernels::matvec(contiguous::<f32>(weight, weight_layout)?, x, bias, k, &mut out),
        }
        Ok((CpuStorage::F32(transposed(out, n, m)), Shape::from((m, n))))
    }
}

/// (n, m) to (m, n); m is a handful.
fn transposed(values: Vec<f32>, n: usize, m: usize) -> Vec<f32> {
    if m == 1 {
        return values;
    }
    let mut out = Vec::with_capacity(values.len());
    for column in 0..m {
        out.extend((0..n).map(|row| values[row * m + column]));
    }
    out
}

struct NormRows {
    epsilon: f32,
}

impl CustomOp3 for NormRows {
    fn name(&self) -> &'static str {
        "layer-norm"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        x_layout: &Layout,
        scale: &CpuStorage,
        scale_layout: &Layout,
        shift: &CpuStorage,
        shift_layout: &Layout,
    ) -> candle_core::Result<(CpuStorage, Shape)> {
        let x = contiguous::<f32>(x, x_layout)?;
        let scale = contiguous::<f32>(scale, scale_layout)?;
        let shift = contiguous::<f32>(shift, shift_layout)?;
        let mut out = vec![0.0_f32; x.len()];
        kernels::layer_norm(x, scale, shift, self.epsilon, &mut out);
        Ok((CpuStorage::F32(out), x_layout.shape().clone()))
    }
}

struct AttendOne<'a> {
    scale: f32,
    visible: Visible<'a>,
}

impl CustomOp3 for AttendOne<'_> {
    fn name(&self) -> &'static str {
        "attend-one"
    }

    fn cpu_fwd(
        &self,
        q: &CpuStorage,
        q_layout: &Layout,
        k: &CpuStorage,
        k_layout: &Layout,
        v: &CpuStorage,
        v_layout: &Layout,
    ) -> candle_core::Result<(CpuStorage, Shape)> {
        let (_, _, capacity, d) = k_layout.shape().dims4()?;
        let q = contiguous::<f32>(q, q_layout)?;
        let cached = Cached { k: contiguous::<f32>(k, k_layout)?, v: contiguous::<f32>(v, v_layout)?, capacity, d };
        let mut out = vec![0.0_f32; q.len()];
        kernels::attend_one(q, &cached, self.scale, self.visible, &mut out);
        Ok((CpuStorage::F32(out), q_layout.shape().clone()))
    }
}

struct Add;

impl InplaceOp2 for Add {
    fn name(&self) -> &'static str {
        "add"
    }

    fn cpu_fwd(
        &self,
        x: &mut CpuStorage,
        x_layout: &Layout,
        y: &CpuStorage,
        y_layout: &Layout,
    ) -> candle_core::Result<()> {
        kernels::add(contiguous_mut(x, x_layout)?, contiguous::<f32>(y, y_layout)?);
        Ok(())
    }
}

struct Activate {
    function: Activation,
}

impl InplaceOp1 for Activate {
    fn name(&self) -> &'static str {
        "activate"
    }

    fn cpu_fwd(&self, x: &mut CpuStorage, layout: &Layout) -> candle_core::Result<()> {
        let x = contiguous_mut(x, layout)?;
        match self.function {
            Activation::GeluNew => kernels::gelu_new(x),
            Activation::Silu => kernels::silu(x),
            Activation::Relu => kernels::map(x, |x| x.max(0.0)),
            Activation::Gelu => {
                kernels::map(x, |x| (f64::from(x) / 2.0 * (1.0 + erf_f64(f64::from(x) * FRAC_1_SQRT_2))) as f32)
            }
        }
        Ok(())
    }
}

struct CausalSoftmax<'a> {
    scale: f32,
    visible: Visible<'a>,
}

impl InplaceOp1 for CausalSoftmax<'_> {
    fn name(&self) -> &'static str {
        "causal-softmax"
    }

    fn cpu_fwd(&self, scores: &mut CpuStorage, layout: &Layout) -> candle_core::Result<()> {
        kernels::causal_softmax(contiguous_mut(scores, layout)?, self.scale, self.visible);
        Ok(())
    }
}

fn contiguous<'a, T: WithDType>(storage: &'a CpuStorage, layout: &Layout) -> candle_core::Result<&'a [T]> {
    match layout.contiguous_offsets() {
        Some((start, end)) => Ok(&storage.as_slice::<T>()?[start..end]),
        None => candle_core::bail!("a kernel got a tensor that is not contiguous: {layout:?}"),
    }
}

fn contiguous_mut<'a>(storage: &'a mut CpuStorage, layout: &Layout) -> candle_core::Result<&'a mut [f32]> {
    match (storage, layout.contiguous_offsets()) {
        (CpuStorage::F32(values), Some((start, end))) => Ok(&mut values[start..end]),
        (other, _) => candle_core::bail!("a kernel got {:?} or a tensor that is not contiguous", other.dtype()),
    }
}

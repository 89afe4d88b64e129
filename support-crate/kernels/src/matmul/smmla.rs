//! Products of bytes where ARM64 processors have `smmla`: two rows of inputs by two of weights with one instruction.

use std::arch::aarch64::*;
use std::arch::asm;
use std::num::Wrapping;
use std::ops::Range;

use super::gemm::{self, Factor, Operands, Panel, blocks};
use crate::simd::{NeonBf16, Simd};
use crate::sizes::hold_rows;
use crate::strided::Block;

/// Pairs of inputs, and of rows of weights, that the micro-kernel takes at once: 16 of 32 registers for sums, 8 for
/// inputs, 2 for weights.
const PAIRS: usize = 4;

/// As [`gemm`](gemm::gemm), to the bit: sums of integers do not depend on their order.
#[inline(always)]
pub fn gemm(simd: NeonBf16, operands: Operands<'_, i8>, rows: Range<usize>, out: &mut Block<'_, Wrapping<i32>>) {
    let Operands { weights, x, x_stride, m, k } = operands;
    if m == 1 {
        return gemm::gemm(simd, operands, rows, out);
    }
    assert!(hold_rows(weights.len(), rows.end, k, k) && hold_rows(x.len(), m, x_stride, k), "factors of a product");
    for along in blocks(0..k, <i8 as Factor<NeonBf16>>::K_BLOCK) {
        for n in blocks(rows.clone(), 2 * PAIRS) {
            let panel = Panel {
                weights: &weights[n.start * k + along.start..],
                weights_stride: k,
                x: &x[along.start..],
                x_stride,
                len: along.len(),
                next: None,
            };
            let columns = n.start - rows.start..n.end - rows.start;
            for inputs in blocks(0..m, 2 * PAIRS) {
                match inputs.len() {
                    1 | 2 => micro_kernel::<1>(simd, panel, inputs, columns.clone(), out),
                    3 | 4 => micro_kernel::<2>(simd, panel, inputs, columns.clone(), out),
                    _ => micro_kernel::<PAIRS>(simd, panel, inputs, columns.clone(), out),
                }
            }
        }
    }
}

/// Multiplies at most `2 * P` inputs by at most `2 * PAIRS` rows of weights; where there are fewer, the last one is
/// repeated, and the extra sums are ignored.
#[inline(always)]
fn micro_kernel<const P: usize>(
    simd: NeonBf16,
    panel: Panel<'_, i8>,
    inputs: Range<usize>,
    columns: Range<usize>,
    out: &mut Block<'_, Wrapping<i32>>,
) {
    let Panel { weights, weights_stride, x, x_stride, len, .. } = panel;
    let (m, n) = (inputs.len(), columns.len());
    // That all rows exist was checked before the panels were made: neither product wraps.
    assert!(weights.len() >= (n - 1) * weights_stride + len, "rows of weights");
    assert!(x.len() >= (inputs.end - 1) * x_stride + len, "rows of inputs");
    let x = &x[inputs.start * x_stride..];
    let input = |i: usize| x[i.min(m - 1) * x_stride..].as_ptr();
    let weight = |j: usize| weights[j.min(n - 1) * weights_stride..].as_ptr();
    let x: [_; P] = std::array::from_fn(|i| [input(2 * i), input(2 * i + 1)]);
    let weights: [_; PAIRS] = std::array::from_fn(|j| [weight(2 * j), weight(2 * j + 1)]);
    let mut sums = [[simd.zero_i32(); PAIRS]; P];
    for at in (0..len).step_by(NeonBf16::BYTES) {
        let left = len - at;
        let load = |[first, second]: [*const i8; 2]| {
            // SAFETY: each of these rows has `len` bytes, as was checked above, and so `left` from `at` on.
            let bytes = |row: *const i8| unsafe {
                if left < NeonBf16::BYTES {
                    simd.load_bytes_part(row.add(at), left)
                } else {
                    simd.load_bytes(row.add(at))
                }
            };
            pair(simd, bytes(first), bytes(second))
        };
        let x = x.map(load);
        for j in 0..PAIRS {
            let weights = load(weights[j]);
            for i in 0..P {
                sums[i][j] = dot(simd, x[i], weights, sums[i][j]);
            }
        }
    }
    for i in 0..m {
        for (j, out) in out.row(inputs.start + i)[columns.clone()].iter_mut().enumerate() {
            // SAFETY: a vector is its four lanes.
            let four = unsafe { std::mem::transmute::<int32x4_t, [i32; 4]>(sums[i / 2][j / 2]) };
            *out += four[2 * (i % 2) + j % 2];
        }
    }
}

/// Two rows of 16 bytes: the first 8 of both, and the others.
type Pair = (int8x16_t, int8x16_t);

#[inline(always)]
fn pair(_: NeonBf16, a: int8x16_t, b: int8x16_t) -> Pair {
    // SAFETY: the value of the instruction set proves that it is there.
    unsafe {
        let (a, b) = (vreinterpretq_s64_s8(a), vreinterpretq_s64_s8(b));
        (vreinterpretq_s8_s64(vzip1q_s64(a, b)), vreinterpretq_s8_s64(vzip2q_s64(a, b)))
    }
}

/// Adds the products of neighbours: the first row of `a` with both of `b`, then the second.
#[inline(always)]
fn dot(_: NeonBf16, a: Pair, b: Pair, c: int32x4_t) -> int32x4_t {
    // SAFETY: the value of the instruction set proves that it is there.
    unsafe { smmla(a.1, b.1, smmla(a.0, b.0, c)) }
}

#[target_feature(enable = "i8mm")]
#[inline]
fn smmla(a: int8x16_t, b: int8x16_t, mut c: int32x4_t) -> int32x4_t {
    // SAFETY: the instruction belongs to the feature, and touches these registers only.
    unsafe {
        asm!(
            "smmla {c:v}.4s, {a:v}.16b, {b:v}.16b",
            c = inout(vreg) c,
            a = in(vreg) a,
            b = in(vreg) b,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    c
}

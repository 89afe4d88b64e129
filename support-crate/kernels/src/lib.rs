//! The arithmetic of a decoder on the CPU: products, attention, norms and activations over plain slices.
//!
//! Decoding one token reads every weight once and does little with it, so its limit is the speed of memory. A
//! block of a transformer is therefore a handful of operations here, shared among threads that wait for the next one.
//!
//! From a call to its multiply-add:
//!
//! 1. [`matmul`] checks shapes and calls [`Weights::multiply`] of the format, a file of `matmul/`, which converts
//!    inputs to the format's numbers;
//! 2. [`Product`]'s `divide` gives threads rows of weights ([`ThreadScope::split`], and `run` in `pool.rs`);
//! 3. [`Isa`]'s `dispatch` runs a kernel that is compiled for the scope's instruction set (`enabled`);
//! 4. [`gemm`](matmul::gemm) goes through a thread's rows in blocks that fit the caches, and its micro-kernel
//!    multiplies some rows of inputs by some rows of weights, with a vector of sums for each pair. Others have a
//!    micro-kernel of their own: 4-bit weights (`fused` in `packed4bit.rs`), which decodes them on the fly, integers in
//!    groups (`grouped_int.rs`), which has a row of weights in each lane, of panels that are there or made of a file's
//!    rows (`q8_0_rows.rs`), and bytes where ARM64 has `smmla`.
//!
//! Everything except the products in tiles (`amx`, `smmla`) and the decoding of 4-bit codes is written once over
//! [`Simd`](simd::Simd), and compiled for each instruction set by [`Isa::dispatch`] and its like. A value of an
//! instruction set's type can only be obtained on a processor that has it, so it is the proof that its instructions may
//! be used.
//!
//! **Exactness.** Each sum is made of the same additions in the same order whatever the shape of the product. So a
//! row's numbers depend neither on its neighbours in a batch nor on whether its tokens came together or one by one,
//! with two exceptions; and sums of int8 products are exact. Two instruction sets round differently.
//!
//! In int8 with a threshold ([`ActivationQuant::Dynamic`]), a column that reaches it in one row of inputs is multiplied as
//! it is in all of them, and no longer in 8 bits.
//!
//! Under `amx`, products of bfloat16, and of 4-bit weights in bfloat16, are computed in one of two ways, depending on
//! the number of their rows: products of few rows (less than 8 where `amx` is asked for by name, otherwise less than a
//! trial found) are computed as under `avx512-bf16`, to the bit, and all others in tiles, which add in another order.
//! Within each way, a row's numbers do not depend on its neighbours; between the two, they differ in the last bits, and
//! so do the logits of a text that is read at once and token by token. Products of float32 and int8 are those of
//! `avx512-bf16`.

#[cfg(target_arch = "x86_64")]
mod amx;
mod attention;
mod elementwise;
mod exp;
mod isa;
mod matmul;
mod peak;
mod pool;
mod quantized_kv;
mod rounding;
mod scratch;
mod simd;
mod sizes;
mod softmax;
mod strided;
#[cfg(test)]
mod test_numbers;
mod threads;
mod zeros;

pub use attention::scores::KEY_PANEL;
pub use attention::{Attention, KeysValues, first_seen, get_key, put_key};
pub use elementwise::{Activation, activate, layer_norm, multiply, rms_norm, rotate, round_to_f16, soft_cap, to_f16};
pub use isa::{Isa, UnknownIsa};
pub use matmul::{
    ActivationQuant, CodeBits, Compute, Epilogue, GroupedInt, Inputs, Matrix, PANEL, Packed4Bit, PackedInt8, Product,
    Q8_0Rows, Scales, Weights, matmul, pack_codes,
};
pub use peak::{Factors, multiply_adds};
pub use quantized_kv::{KvBits, QuantizedAttention, QuantizedKv, Run};
pub use rounding::{INTEGERS, LARGEST, PER_PRODUCT, PER_STEP, int8_factor, round_to_int8};
pub use scratch::Scratch;
pub use softmax::negative_log_likelihood;
pub use threads::{MAX_THREADS, ThreadScope, default_threads, set_threads, thread_scope, threads, threads_granted};
pub use zeros::{Zero, zeros};

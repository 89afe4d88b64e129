//! Computing on the main processor, with kernels of this library over the memory of a backend's tensors.
//!
//! Decoding one token reads every weight once and does little with it, so its limit is the speed of
//! memory; a library's operations, one by one, spend as long again on being called. Here a block is five
//! operations, shared among threads that wait for the next one.

mod attention;
mod decode;
mod elementwise;
mod four_bit;
mod int8;
mod matmul;
mod pool;
mod scratch;
mod simd;
#[cfg(test)]
pub(super) mod test_numbers;
mod threads;

pub(super) use attention::{Attention, first_seen};
pub(crate) use elementwise::exp;
pub(super) use elementwise::{layer_norm, multiply as multiply_elements, rms_norm, rotate};
pub(super) use four_bit::FourBit;
pub(super) use int8::{Inputs, Int8};
pub(super) use matmul::{Matrix, Numbers, Then, Weights, multiply};
pub(super) use pool::Shares;
pub(super) use scratch::Scratch;
pub(super) use simd::InstructionSet;
pub use threads::{set_threads, threads};
pub(crate) use threads::{shares, threads_granted};

//! Whatever safe code passes to a public function: it computes what a plain loop computes, or refuses by a message that
//! names the sizes.
//!
//! What these tests are about only shows without overflow checks, as the crate is built for notebooks: a product of
//! sizes that wraps then passes for a small one. `cargo lab test` runs them with the checks and without
//! (environment/src/isa_tests.rs). Sizes are multiplied here in 128 bits, where none of them wraps.

mod attention;
mod products;
mod quantized_kv;
mod rows;
mod threads;

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use proptest::prelude::*;
use quantlab_kernels::{Scratch, first_seen};

/// As in the crate's own tests: a quarter of the cases where the processor is emulated.
fn cases(all: u32) -> ProptestConfig {
    let share = if std::env::var_os("QUANTLAB_EMULATED").is_some() { 4 } else { 1 };
    ProptestConfig::with_cases(all / share)
}

/// Small sizes, and those whose products wrap.
fn size() -> impl Strategy<Value = usize> {
    prop_oneof![
        3 => 0..9_usize,
        1 => (1..9_usize, 0..3_usize).prop_map(|(n, less)| usize::MAX / n - less),
        1 => (1..9_usize).prop_map(|n| (usize::MAX / n).saturating_add(1)),
        1 => (54..64_u32).prop_map(|bit| 1 << bit),
    ]
}

/// One of several numbers, by its index, is replaced by a size, or is a few more or less; half of the time, none is.
fn change(count: usize) -> impl Strategy<Value = (usize, Result<usize, isize>)> {
    let other = prop_oneof![size().prop_map(Ok), (-3..4_isize).prop_map(Err)];
    (0..2 * count, other)
}

fn apply<const N: usize>(numbers: &mut [usize; N], (index, change): (usize, Result<usize, isize>)) {
    if let Some(number) = numbers.get_mut(index) {
        *number = change.unwrap_or_else(|more| number.saturating_add_signed(more));
    }
}

fn product(sizes: &[usize]) -> u128 {
    sizes.iter().map(|&size| size as u128).product()
}

/// As many numbers as a slice is to have; for sizes that no slice has, fewer.
fn length(size: usize) -> usize {
    if size < 1 << 20 { size } else { size % 97 }
}

/// Small integers, which every format has, that repeat for the same seed.
fn integers(count: usize, most: i32, seed: u32) -> Vec<i32> {
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(12_345);
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as i32 % (2 * most + 1) - most
    };
    (0..count).map(|_| next()).collect()
}

fn floats(count: usize, seed: u32) -> Vec<f32> {
    integers(count, 8, seed).into_iter().map(|value| value as f32 / 8.0).collect()
}

fn assert_close(found: &[f32], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len());
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        let distance = (f64::from(*found) - expected).abs();
        assert!(distance <= tolerance * expected.abs().max(1.0), "element {i}: {found} instead of {expected}");
    }
}

/// What a panic said.
fn message(panic: &(dyn Any + Send)) -> &str {
    let of_string = || panic.downcast_ref::<String>().map(String::as_str);
    panic.downcast_ref::<&str>().copied().or_else(of_string).unwrap_or("(not a text)")
}

/// What a call comes to that is to succeed if its arguments are `valid`, and else to be refused for one of `reasons`.
fn outcome<T>(valid: bool, reasons: &[&str], call: impl FnOnce() -> T) -> Option<T> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(value) => {
            assert!(valid, "computed what cannot be computed");
            Some(value)
        }
        Err(panic) => {
            let message = message(&*panic);
            assert!(!valid, "refused what can be computed: {message}");
            assert!(reasons.iter().any(|reason| message.contains(reason)), "no reason of ours: {message}");
            None
        }
    }
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn scratch_is_as_long_as_it_says(len in prop_oneof![0..3000_usize, size()], cut in size()) {
        let slice = outcome(len < 1 << 20, &["cannot allocate"], || Scratch::<f32>::uninit(len));
        if let Some(mut slice) = slice {
            slice.fill(1.0);
            prop_assert_eq!(slice.len(), len);
            slice.truncate(cut);
            prop_assert_eq!(slice.len(), len.min(cut));
            slice.fill(2.0);
        }
        outcome(len < 1 << 20, &["cannot allocate"], || Scratch::<i8>::uninit(len));
    }

    #[test]
    fn a_window_holds_the_last_tokens(
        mask in prop::option::of(prop::collection::vec(any::<bool>(), 0..20)),
        position in prop_oneof![0..20_usize, size()],
        window in size(),
    ) {
        let inside = mask.as_ref().is_none_or(|mask| position < mask.len());
        let call = || first_seen(mask.as_deref(), position, window);
        let Some(first) = outcome(window > 0 && inside, &["the window must not be 0", "mask of"], call) else {
            return Ok(());
        };
        let Some(mask) = mask else {
            prop_assert_eq!(first as u128, (position as u128 + 1).saturating_sub(window as u128));
            return Ok(());
        };
        let tokens = |from: usize| (from..=position).filter(|&key| mask[key]).collect::<Vec<_>>();
        let all = tokens(0);
        prop_assert_eq!(tokens(first), &all[all.len().saturating_sub(window)..]);
    }
}

//! What the tests of all kernels need.

/// Numbers between -1 and 1 that repeat for the same seed.
pub fn numbers(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(12_345);
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / 8_388_608.0 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

/// Every number is near the expected one, relative to the larger of that and 1.
pub fn assert_close(found: &[f32], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len());
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        let distance = (f64::from(*found) - expected).abs();
        assert!(distance <= tolerance * expected.abs().max(1.0), "element {i}: {found} instead of {expected}");
    }
}

/// `all` cases of a property, and a quarter where QEMU emulates the processor, which is some thirty times slower
/// (`QUANTLAB_EMULATED`, set by `cargo lab test`).
pub fn cases(all: u32) -> proptest::test_runner::Config {
    let share = if std::env::var_os("QUANTLAB_EMULATED").is_some() { 4 } else { 1 };
    proptest::test_runner::Config::with_cases(all / share)
}

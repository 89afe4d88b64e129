//! Files that are damaged in any way: they are read or refused.

use std::fs;

use proptest::prelude::*;
use quantlab::source::Gguf;

use crate::tiny_gguf;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Whatever is changed in a header, it is read or refused.
    #[test]
    fn a_damaged_header_never_panics(
        changes in proptest::collection::vec(
            (0..24_000_usize, prop_oneof![any::<u64>(), Just(u64::MAX), Just(1 << 60), 0..64_u64], 1..9_usize),
            1..5,
        ),
        cut in prop_oneof![4 => Just(usize::MAX), 1 => 0..30_000_usize],
    ) {
        thread_local! {
            static BYTES: Vec<u8> = fs::read(tiny_gguf()).unwrap();
        }
        let mut bytes = BYTES.with(Clone::clone);
        for (at, value, len) in changes {
            bytes[at..at + len.min(8)].copy_from_slice(&value.to_le_bytes()[..len.min(8)]);
        }
        bytes.truncate(cut);
        if let Ok(header) = Gguf::read(&bytes) {
            for tensor in header.tensors().values() {
                prop_assert!(tensor.range.end <= bytes.len());
            }
        }
    }
}

//! Quantized keys and values of any sizes, with runs of any tokens to slices of any lengths.

use proptest::prelude::*;
use quantlab_kernels::{KvBits, QuantizedAttention, QuantizedKv, Run, thread_scope, zeros};

use super::{apply, cases, change, floats, length, outcome, product, size};

const REASONS: [&str; 7] =
    ["runs: ", "rows: ", "queries: ", "outputs: ", "heads: ", "attention with ", "cannot allocate"];

/// Whether a cache of `batch` sequences of `capacity` tokens, and `rows` rows, have these runs.
fn are_valid(runs: &[Run], batch: usize, capacity: usize, rows: u128) -> bool {
    let mut next = 0;
    runs.iter().all(|&Run { sequence, position, row, count }| {
        let (from, end) = (row as u128, row as u128 + count as u128);
        let follows = from >= std::mem::replace(&mut next, end);
        follows
            && (1..=QuantizedKv::MOST).contains(&count)
            && sequence < batch
            && position as u128 + count as u128 <= capacity as u128
            && end <= rows
    })
}

proptest! {
    #![proptest_config(cases(1024))]

    #[test]
    fn keys_and_values_are_taken_and_seen_or_refused(
        (batch, heads, group, head_dim) in (1..4_usize, 1..4_usize, 1..6_usize, 1..34_usize),
        (capacity, window) in (1..200_usize, prop_oneof![1..90_usize, Just(usize::MAX), Just(0)]),
        (bits, room) in (prop_oneof![Just(KvBits::Four), Just(KvBits::Eight)], 0..3_usize),
        runs in prop::collection::vec((0..3_usize, 0..150_usize, 0..3_usize, 1..70_usize), 0..5),
        changes in prop::collection::vec((0..10_usize, change(4)), 2),
        (of_sizes, of_lengths) in (change(4), change(2)),
        seed: u32,
    ) {
        let scope = thread_scope();
        let mut kv = QuantizedKv::new(bits, batch, heads, capacity, head_dim).unwrap();
        let mut next = 0;
        let mut runs: Vec<[usize; 4]> = runs.into_iter().map(|(sequence, position, skipped, count)| {
            let row = next + skipped;
            next = row + count;
            [sequence, position, row, count]
        }).collect();
        for (of, change) in changes {
            if let Some(run) = runs.get_mut(of) {
                apply(run, change);
            }
        }
        let runs: Vec<Run> =
            runs.iter().map(|&[sequence, position, row, count]| Run { sequence, position, row, count }).collect();
        let width = (group + 2) * heads * head_dim + room;
        let mut sizes = [width, group * heads * head_dim, width, group];
        apply(&mut sizes, of_sizes);
        let [width, start, q_stride, group] = sizes;
        let mut lengths = [next.saturating_mul(width), next.saturating_mul(product(&[group, heads, head_dim]).min(1 << 40) as usize)];
        apply(&mut lengths, of_lengths);
        let [rows, out] = lengths.map(length);
        let rows = floats(rows, seed);
        let needed = 2 * product(&[heads, head_dim]) + start as u128;
        let valid = width > 0 && needed <= width as u128 && are_valid(&runs, batch, capacity, (rows.len() / width.max(1)) as u128);
        outcome(valid, &REASONS, || kv.append(&scope, &runs, &rows, width, start));
        let mut out = vec![f32::NAN; out];
        let of_all = product(&[group, heads, head_dim]);
        let last = runs.last().map_or(0, |run| run.row as u128 + run.count as u128);
        let held = last == 0 || q_stride as u128 >= of_all
            && (last - 1).checked_mul(q_stride as u128).is_some_and(|start| start + of_all <= rows.len() as u128);
        let valid = group > 0 && window > 0 && of_all <= usize::MAX as u128 && (out.len() as u128).is_multiple_of(of_all.max(1))
            && are_valid(&runs, batch, capacity, out.len() as u128 / of_all.max(1)) && held;
        let attention =
            QuantizedAttention { q: &rows, q_stride, kv: &kv, runs: &runs, group, scale: 0.7, soft_cap: None, window };
        if outcome(valid, &REASONS, || attention.compute(&scope, &mut out)).is_some() {
            // A run that begins where its sequence does sees nothing else than what was taken.
            let written = runs.iter().flat_map(|run| run.row..run.row + run.count);
            for row in written {
                let of_row = &out[row * of_all as usize..(row + 1) * of_all as usize];
                prop_assert!(of_row.iter().all(|x| x.is_finite()), "row {row}");
            }
            let [mut first, mut second] = [(); 2].map(|()| vec![f32::NAN; out.len()]);
            QuantizedAttention::compute_all(vec![(attention, &mut first), (attention, &mut second)], &scope);
            let bits = |out: &[f32]| out.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            prop_assert!(bits(&first) == bits(&out) && bits(&second) == bits(&out));
        }
    }

    #[test]
    fn sequences_are_copied_or_refused(from in size(), to in size(), tokens in size()) {
        let mut kv = QuantizedKv::new(KvBits::Four, 3, 2, 100, 5).unwrap();
        outcome(from < 3 && to < 3, &["sequences: "], || kv.copy(from, to, tokens));
    }

    #[test]
    fn recent_tokens_are_found_or_refused(
        sequence in size(), (start, end) in (prop_oneof![0..140_usize, size()], prop_oneof![0..140_usize, size()]),
        longest in prop_oneof![0..140_usize, size()],
    ) {
        let mut kv = QuantizedKv::new(KvBits::Four, 2, 2, 140, 3).unwrap();
        let rows = floats(64 * 12, 5);
        for position in [0, 64] {
            kv.append(&thread_scope(), &[Run { sequence: 1, position, row: 0, count: 64 }], &rows, 12, 0);
        }
        let valid = sequence < 2 && start <= end && end <= longest && longest <= 140;
        let found = outcome(valid, &["sequences: ", "tokens: "], || kv.recent(sequence, start..end, longest));
        if let Some(found) = found {
            prop_assert_eq!(found.is_some(), start + 128 >= longest);
            let Some([keys, values]) = found else { return Ok(()) };
            prop_assert_eq!((keys.len(), values.len()), (2 * 3 * (end - start), 2 * 3 * (end - start)));
            if sequence == 1 && end <= 128 && longest == 128 {
                let of = |token: usize, column: usize| rows[token % 64 * 12 + column];
                for (index, token) in (start..end).enumerate() {
                    prop_assert_eq!(keys[3 * index].to_f32(), of(token, 0));
                    prop_assert_eq!(values[3 * (end - start + index) + 2].to_f32(), of(token, 11));
                }
            }
        }
    }

    #[test]
    fn there_is_memory_or_there_is_not(
        mut sizes in (1..4_usize, 1..4_usize, 1..200_usize, 1..40_usize).prop_map(<[usize; 4]>::from),
        changes in [change(4), change(4)],
        four: bool,
    ) {
        for change in changes {
            apply(&mut sizes, change);
        }
        let [batch, heads, capacity, head_dim] = sizes;
        let bits = if four { KvBits::Four } else { KvBits::Eight };
        let new = || QuantizedKv::new(bits, batch, heads, capacity, head_dim);
        if let Some(Some(kv)) = outcome(!sizes.contains(&0), &["keys and values of "], new) {
            prop_assert!(kv.bytes() as u128 >= 4 * product(&[batch, heads, capacity.min(128), head_dim]));
        }
    }

    #[test]
    fn cuts_of_any_length(longest in size(), tokens in size()) {
        let fewest = QuantizedKv::fewest_to_go_on(longest);
        prop_assert_eq!(QuantizedKv::can_go_on(longest, tokens), tokens == 0 || tokens >= fewest);
        prop_assert!(QuantizedKv::coded_before(tokens) <= tokens);
        prop_assert!(zeros::<f32>(length(tokens)).is_some());
    }
}

//! Parts of any sizes, and parts that misbehave.

use std::cell::OnceCell;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use proptest::prelude::*;
use quantlab_kernels::{Factors, MAX_THREADS, ThreadScope, multiply_adds, set_threads, thread_scope, threads_granted};

use super::{cases, message, outcome, size};

/// Enough multiplications that each of a count is a part.
const WORK: usize = 1 << 20;

/// A scope with helpers, which other tests may have for a moment.
fn scope_with_helpers() -> ThreadScope {
    loop {
        set_threads(4);
        let scope = thread_scope();
        if scope.threads() > 1 {
            return scope;
        }
        std::thread::yield_now();
    }
}

/// Whether some ranges make up `0..count`, each but the last a multiple of `multiple` long.
fn make_up(mut ranges: Vec<(usize, usize)>, count: usize, multiple: usize) -> bool {
    ranges.sort_unstable();
    let mut end = 0;
    for &(start, len) in &ranges {
        if start != end || (len % multiple != 0 && start + len != count) {
            return false;
        }
        end += len;
    }
    end == count
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn ranges_make_up_any_count(count in size(), multiple in size(), work in size()) {
        let ranges = Mutex::new(Vec::new());
        let split = || scope_with_helpers().split(count, multiple, work, &|range| {
            ranges.lock().unwrap().push((range.start, range.len()));
        });
        if outcome(multiple > 0, &["ranges cannot be multiples of 0"], split).is_some() {
            let ranges = ranges.into_inner().unwrap();
            prop_assert!(make_up(ranges.clone(), count, multiple), "{:?}", ranges);
        }
    }

    #[test]
    fn parts_make_up_any_slice(len in 0..300_usize, unit in prop_oneof![0..40_usize, size()], work in size()) {
        let mut out = vec![0_u8; len];
        let valid = unit > 0 && len % unit == 0;
        let split = || scope_with_helpers().split_mut(&mut out, unit, work, &|first, part| {
            for (i, number) in part.iter_mut().enumerate() {
                *number += 1 + ((first * unit + i) % 200) as u8;
            }
        });
        if outcome(valid, &["not whole units of"], split).is_some() {
            prop_assert!(out.iter().enumerate().all(|(i, &number)| usize::from(number) == 1 + i % 200), "{:?}", out);
        }
    }

    /// Of what has no size, a slice may be as long as numbers are.
    #[test]
    fn parts_make_up_a_slice_of_nothings(len in size(), unit in size()) {
        let ranges = Mutex::new(Vec::new());
        let split = || scope_with_helpers().split_mut(&mut vec![(); len], unit, WORK, &|first, part| {
            ranges.lock().unwrap().push((first * unit, part.len()));
        });
        if outcome(unit > 0 && len % unit == 0, &["not whole units of"], split).is_some() {
            prop_assert!(make_up(ranges.into_inner().unwrap(), len, unit));
        }
    }

    #[test]
    fn a_count_of_threads_is_between_its_limits(count in prop_oneof![size(), Just(MAX_THREADS), Just(MAX_THREADS + 1)]) {
        // Few, for the tests beside this one would take the rest.
        let count = if count > 8 && count <= MAX_THREADS { 8 } else { count };
        outcome((1..=MAX_THREADS).contains(&count), &[" threads"], || set_threads(count));
        let (granted, fewest) = threads_granted(|| thread_scope().threads());
        prop_assert!((1..=granted).contains(&fewest));
    }
}

thread_local! {
    /// A scope that parts on the caller's thread can reach, though they cannot hold it.
    static SCOPE: OnceCell<ThreadScope> = const { OnceCell::new() };
}

#[test]
fn a_part_cannot_post_a_job_of_its_own_and_none_is_lost() {
    SCOPE.with(|scope| drop(scope.set(scope_with_helpers())));
    let refused = AtomicUsize::new(0);
    let nested = || {
        SCOPE.with(|scope| {
            let Some(scope) = scope.get() else { return };
            let run = || scope.split(64, 1, WORK, &|_| ());
            let panic = catch_unwind(AssertUnwindSafe(run)).expect_err("a job within a job");
            assert!(message(&*panic).contains("a job of its own"), "{}", message(&*panic));
            refused.fetch_add(1, Ordering::Relaxed);
        });
    };
    for _ in 0..2000 {
        let done: [AtomicUsize; 64] = std::array::from_fn(|_| AtomicUsize::new(0));
        SCOPE.with(|scope| {
            scope.get().unwrap().split(64, 1, WORK, &|parts| {
                nested();
                for part in parts {
                    done[part].fetch_add(1, Ordering::Relaxed);
                }
            });
        });
        assert!(done.iter().all(|done| done.load(Ordering::Relaxed) == 1), "{done:?}");
    }
    assert!(refused.load(Ordering::Relaxed) > 0);
    // A job that ended by a panic is over, too.
    let end = |_| SCOPE.with(|scope| scope.get().map_or((), |_| panic!("on purpose")));
    SCOPE.with(|scope| {
        let scope = scope.get().unwrap();
        while catch_unwind(AssertUnwindSafe(|| scope.split(64, 1, WORK, &end))).is_ok() {}
        scope.split(64, 1, WORK, &|_| ());
    });
}

/// What a part panics with that panics once more when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("dropped");
        }
    }
}

#[test]
fn a_panic_that_panics_when_it_is_dropped_keeps_nobody_waiting() {
    let (done, wait) = channel();
    std::thread::spawn(move || {
        let caller = std::thread::current().id();
        let scope = scope_with_helpers();
        let helper_panicked = AtomicBool::new(false);
        while !helper_panicked.load(Ordering::Relaxed) {
            let split = || {
                scope.split(64, 1, WORK, &|_| {
                    std::thread::sleep(Duration::from_micros(100));
                    if std::thread::current().id() != caller {
                        helper_panicked.store(true, Ordering::Relaxed);
                        panic_any(Bomb);
                    }
                });
            };
            let outcome = catch_unwind(AssertUnwindSafe(split));
            assert_eq!(outcome.is_err(), helper_panicked.load(Ordering::Relaxed));
        }
        // The caller's own part: its panic goes on, and the scope with it.
        let of_caller = |_| {
            if std::thread::current().id() == caller {
                panic_any(Bomb)
            }
        };
        let panic = loop {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| scope.split(64, 1, WORK, &of_caller))) {
                break panic;
            }
        };
        assert!(panic.is::<Bomb>());
        std::mem::forget(panic);
        let count = AtomicUsize::new(0);
        scope.split(64, 1, WORK, &|parts| {
            count.fetch_add(parts.len(), Ordering::Relaxed);
        });
        done.send(count.into_inner()).unwrap();
    });
    assert_eq!(wait.recv_timeout(Duration::from_secs(60)), Ok(64));
}

#[test]
fn arithmetic_is_counted_whatever_is_asked_for() {
    for factors in [Factors::Float32, Factors::BFloat16, Factors::Int8] {
        let scope = scope_with_helpers();
        let one = multiply_adds(&scope, factors, 1);
        for passes in [0, 3, 1000] {
            assert_eq!(multiply_adds(&scope, factors, passes), u64::from(passes) * one);
        }
    }
}

//! Work that is done several pieces at a time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::{iter, panic, thread};

/// What `work` makes of each of these, `workers` of them at a time; in their order.
pub fn side_by_side<I: Sync, T: Send>(workers: usize, all: &[I], work: impl Fn(usize, &I) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let take = || {
        let places = iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed));
        places.map_while(|at| Some((at, work(at, all.get(at)?)))).collect::<Vec<_>>()
    };
    let mut done: Vec<(usize, T)> = thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(take)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap_or_else(|why| panic::resume_unwind(why))).collect()
    });
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, made)| made).collect()
}

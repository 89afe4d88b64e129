//! How much arithmetic this machine does in a second.

use std::time::{Duration, Instant};

pub use quantlab_kernels::Factors;
use quantlab_kernels::{multiply_adds, thread_scope};

/// A pass is long enough that starting its threads is none of it, in seconds.
const PASS: f64 = 4e-3;
/// The time for all passes.
const DURATION: Duration = Duration::from_millis(20);

/// The arithmetic that this machine's processor can do now, in 10^9 operations per second, of which a multiply-add is two:
/// the fastest of some passes, 20 ms in all. All threads that compute ([`threads`](super::threads)) multiply numbers that
/// lie in their first-level caches, with the instruction set that the engine `kernels` uses, in tiles where that does.
/// Like the bandwidth of memory ([`MemoryReader`](super::MemoryReader)) it drifts with whatever else the machine does:
/// measure it in turn with the work that it is to bound.
///
/// Together, the two bound any work (Williams, Waterman and Patterson 2009, *Roofline*): see
/// [`roofline`](crate::report::roofline).
///
/// ```
/// use quantlab::measure::{Factors, peak_gops};
///
/// let gops = [Factors::Float32, Factors::Int8].map(peak_gops);
/// println!("{:.0} GFLOP/s in float32, {:.0} Gop/s in int8", gops[0], gops[1]);
/// ```
pub fn peak_gops(factors: Factors) -> f64 {
    let scope = thread_scope();
    let (mut passes, start, mut best) = (64, Instant::now(), 0.0_f64);
    while start.elapsed() < DURATION {
        let begin = Instant::now();
        let count = multiply_adds(&scope, factors, passes);
        let seconds = begin.elapsed().as_secs_f64();
        best = best.max(2e-9 * count as f64 / seconds);
        // The first ones wake the threads, and say how long the others have to be.
        if seconds < PASS {
            passes = passes.saturating_mul(2);
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How fast a machine is that others use too, no test can say.
    #[test]
    fn operations_are_counted_by_the_pass_and_make_a_rate() {
        let scope = thread_scope();
        for factors in [Factors::Float32, Factors::BFloat16, Factors::Int8] {
            let [one, many] = [1, 100].map(|passes| multiply_adds(&scope, factors, passes));
            assert!(one > 0 && many == 100 * one, "{factors:?}: {one} in a pass, {many} in a hundred");
        }
        drop(scope);
        assert!((1e-3..1e9).contains(&peak_gops(Factors::Float32)));
    }
}

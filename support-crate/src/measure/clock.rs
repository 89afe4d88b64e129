//! What time it is, as something that can be handed to a function.

use std::sync::LazyLock;
use std::time::Instant;

/// A clock that never goes backwards. A function that is given its clock can be tried out with one whose
/// time is known.
pub trait Clock {
    /// Seconds since some moment in the past, the same one for every call.
    fn now(&self) -> f64;
}

/// The time that passes in the room: monotonic, to the nanosecond (Python's `time.perf_counter`).
#[derive(Debug, Clone, Copy, Default)]
pub struct WallClock;

static START: LazyLock<Instant> = LazyLock::new(Instant::now);

impl Clock for WallClock {
    fn now(&self) -> f64 {
        START.elapsed().as_secs_f64()
    }
}

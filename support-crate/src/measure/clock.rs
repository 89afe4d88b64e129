//! What time it is, as something that can be passed to a function.

use std::sync::LazyLock;
use std::time::Instant;

use crate::error::Result;
use crate::model::CausalLm;

/// A clock that never goes backwards. A function that is given its clock can be tried out with one whose
/// time is known.
pub trait Clock {
    /// Seconds since some moment in the past, the same one for every call.
    fn now(&self) -> f64;
}

/// The time on the wall: monotonic, to the nanosecond (Python's `time.perf_counter`).
#[derive(Debug, Clone, Copy, Default)]
pub struct WallClock;

static START: LazyLock<Instant> = LazyLock::new(Instant::now);

impl Clock for WallClock {
    fn now(&self) -> f64 {
        START.elapsed().as_secs_f64()
    }
}

/// Times `work` that a model's device does, in seconds: waits for the device, reads the clock, works, waits again and reads
/// the clock again. Returns what `work` returned, and the time.
///
/// ```
/// use quantlab::generate::GenerateOptions;
/// use quantlab::measure::{WallClock, stopwatch};
/// use quantlab::model::{Device, load_model_and_tokenizer};
///
/// let loaded = load_model_and_tokenizer(&["embedded"], "float32", Device::Cpu)?;
/// let ids = loaded.tokenizer.encode("Once upon a time")?;
/// let options = GenerateOptions { max_new_tokens: 4, ..GenerateOptions::default() };
/// let (generated, seconds) = stopwatch(&WallClock, &*loaded.model, || loaded.generate_tokens(&ids, &options))?;
/// println!("{} tokens in {seconds:.4} s", generated.tokens.len());
/// # Ok::<(), quantlab::error::Error>(())
/// ```
///
/// # Errors
/// That of `work`; a device that fails.
pub fn stopwatch<T>(clock: &dyn Clock, model: &dyn CausalLm, work: impl FnOnce() -> Result<T>) -> Result<(T, f64)> {
    model.synchronize()?;
    let start = clock.now();
    let done = work()?;
    model.synchronize()?;
    Ok((done, clock.now() - start))
}
